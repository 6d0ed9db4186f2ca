"""Both state spaces against a dynamic programme written down from its definition."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operator_graphs import CONV, op
from tvm_ios.core.endings import (
    EndingRule,
    admissible_groups,
    descendant_masks,
    disjoint_unions,
)
from tvm_ios.core.graph import OperatorGraph, bits_of, mask_of
from tvm_ios.core.merge_rule import why_not_merge
from tvm_ios.core.schedule import Strategy
from tvm_ios.search.block_graph import make_block_graph, mergeable_sets
from tvm_ios.search.native_space import NativeStateSpace, make_state_space
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.python_space import PythonStateSpace
from tvm_ios.search.state_space import WEIGHT_SHIFT, TooManyTransitionsError

KINDS = [
    None,
    CONV,
    replace(CONV, kernel=(3, 3), padding=(1, 1, 1, 1)),
    replace(CONV, operand="y"),
    replace(CONV, groups=4),
]
SPACES = [PythonStateSpace, NativeStateSpace]


@st.composite
def graphs(draw, most=6):
    count = draw(st.integers(1, most))
    return OperatorGraph(
        "g",
        tuple(
            op(
                f"o{head}",
                *(t for t in range(head) if draw(st.integers(0, 2)) == 0),
                workload="w",
                convolution=draw(st.sampled_from(KINDS)),
            )
            for head in range(count)
        ),
    )


options = st.builds(
    SearchOptions,
    strategies=st.sampled_from(
        [frozenset(Strategy), frozenset({Strategy.MERGE}), frozenset({Strategy.CONCURRENT})]
    ),
    max_group_size=st.integers(0, 4),
    max_num_groups=st.integers(0, 3),
    endings=st.sampled_from(EndingRule),
    pad_merged_kernels=st.booleans(),
)


def _price(mask, merged, salt):
    return hash((mask, merged, salt)) % 1000


def _may_merge(members, options):
    return why_not_merge(members) is None and (
        options.pad_merged_kernels or len({member.kernel for member in members}) == 1
    )


class _Reference:
    """The programme by definition: memoised recursion over states."""

    def __init__(self, graph, options, price):
        self.block = make_block_graph(graph, range(len(graph)))
        self.options = options
        self.price = price
        self.stages = set()
        self.transitions = 0
        self.sinks = 0
        self.solve = cache(self._solve)
        self.value, self.count = self.solve((1 << len(graph)) - 1)
        self.states = self.solve.cache_info().currsize - 1

    def _candidates(self, state):
        sinks = [i for i in bits_of(state) if not self.block.successors[i] & state]
        self.sinks += len(sinks)
        if Strategy.MERGE in self.options.strategies:
            for subset in range(1, 1 << len(sinks)):
                chosen = [sinks[k] for k in bits_of(subset)]
                members = [self.block.convolutions[i] for i in chosen]
                if len(chosen) > 1 and _may_merge(members, self.options):
                    yield mask_of(chosen), True
        if Strategy.CONCURRENT in self.options.strategies:
            options = self.options
            descendants = descendant_masks(self.block.successors)
            groups = admissible_groups(state, descendants, options.endings, options.max_group_size)
            for ending in disjoint_unions(groups, options.max_num_groups):
                yield ending, False
        else:
            for sink in sinks:
                yield 1 << sink, False

    def _solve(self, state):
        if not state:
            return 0, 1
        values, count = [], 0
        for mask, merged in self._candidates(state):
            self.transitions += 1
            self.stages.add((mask, merged))
            value, ways = self.solve(state ^ mask)
            values.append(value + self.price(mask, merged))
            count += ways
        return min(values), count


def _prices(space, salt):
    return [_price(m, i < space.num_merges, salt) for i, m in enumerate(space.stage_masks)]


@pytest.mark.parametrize("kind", SPACES)
@given(graph=graphs(), options=options, salt=st.integers())
def test_counts_and_optimum(kind, graph, options, salt):
    reference = _Reference(graph, options, lambda mask, merged: _price(mask, merged, salt))
    space = kind(reference.block, options)
    assert space.num_states == reference.states
    assert space.num_transitions == reference.transitions
    assert space.num_sinks == reference.sinks
    assert space.count_schedules() == reference.count
    stages = {(mask, i < space.num_merges) for i, mask in enumerate(space.stage_masks)}
    assert len(stages) == len(space.stage_masks)
    assert stages == reference.stages
    space.start(_prices(space, salt), priced=True)
    assert space.best_weight() >> WEIGHT_SHIFT == reference.value
    path = space.best_path()
    assert space.best_weight() & (1 << WEIGHT_SHIFT) - 1 == len(path)
    assert sum(_prices(space, salt)[stage] for stage in path) == reference.value
    done = 0
    for stage in path:
        mask = space.stage_masks[stage]
        assert not mask & done
        for index in bits_of(mask):
            assert reference.block.predecessors[index] & ~(done | mask) == 0
        done |= mask
    assert done == (1 << len(reference.block)) - 1


@given(graph=graphs(), options=options, salt=st.integers(), data=st.data())
def test_native_and_python_agree_in_every_answer(graph, options, salt, data):
    block = make_block_graph(graph, range(len(graph)))
    python, native = PythonStateSpace(block, options), NativeStateSpace(block, options)
    for field in ("num_states", "num_transitions", "num_sinks", "num_merges", "stage_masks"):
        assert getattr(python, field) == getattr(native, field)
    numbers = range(len(python.stage_masks))
    assert [python.stage_groups(n) for n in numbers] == [native.stage_groups(n) for n in numbers]
    assert python.count_schedules() == native.count_schedules()
    prices = _prices(python, salt)
    floors = [price * data.draw(st.integers(0, 2)) // 2 for price in prices]
    for space in (python, native):
        space.start(floors, priced=False)
    assert (python.best_path(), python.best_weight()) == (native.best_path(), native.best_weight())
    order = data.draw(st.permutations(list(numbers)))
    while order:
        size = data.draw(st.integers(1, 3))
        batch, order = order[:size], order[size:]
        batch_prices = [prices[stage] for stage in batch]
        for space in (python, native):
            space.settle(batch, batch_prices, batch_prices)
        assert python.best_path() == native.best_path()
        assert python.best_weight() == native.best_weight()


@pytest.mark.slow(1)
@pytest.mark.parametrize("kind", SPACES)
@given(graph=graphs(), options=options, salt=st.integers(), data=st.data())
def test_incremental_solving_ends_where_solving_afresh_does(kind, graph, options, salt, data):
    """Even with bounds that are far too high: at the end every stage has its price."""
    block = make_block_graph(graph, range(len(graph)))
    space, fresh = kind(block, options), kind(block, options)
    prices = _prices(space, salt)
    wild = st.integers(0, 2000)
    space.start([data.draw(wild) for _ in prices], priced=False)
    for stage in data.draw(st.permutations(range(len(prices)))):
        space.settle([stage], [prices[stage]], [data.draw(wild)])
    fresh.start(prices, priced=True)
    assert space.best_weight() >> WEIGHT_SHIFT == fresh.best_weight() >> WEIGHT_SHIFT


@pytest.mark.slow(1)
@pytest.mark.parametrize("kind", SPACES)
@given(graph=graphs(), options=options, salt=st.integers(), data=st.data())
def test_priced_only_is_the_best_of_what_is_priced(kind, graph, options, salt, data):
    block = make_block_graph(graph, range(len(graph)))
    space = kind(block, options)
    prices = _prices(space, salt)
    chosen = {
        n for n, m in enumerate(space.stage_masks) if n >= space.num_merges and m & m - 1 == 0
    }
    chosen |= data.draw(st.sets(st.integers(0, len(prices) - 1)))
    batch = sorted(chosen)
    space.start([0] * len(prices), priced=False)
    space.settle(batch, [prices[n] for n in batch], [0] * len(batch))
    space.keep_priced_only()
    assert set(space.best_path()) <= chosen
    masks = {(space.stage_masks[n], n < space.num_merges) for n in chosen}
    dear = 10**7
    reference = _Reference(
        graph, options, lambda mask, m: _price(mask, m, salt) if (mask, m) in masks else dear
    )
    assert space.best_weight() >> WEIGHT_SHIFT == reference.value


@given(graphs(), options)
def test_mergeable_sets(graph, options):
    block = make_block_graph(graph, range(len(graph)))
    expected = []
    for mask in range(1 << len(graph)):
        chosen = bits_of(mask)
        independent = not any(
            block.descendants[a] >> b & 1 for a in chosen for b in chosen if a < b
        )
        members = [block.convolutions[i] for i in chosen]
        if len(chosen) > 1 and independent and _may_merge(members, options):
            expected.append(mask)
    assert mergeable_sets(block, options) == (
        expected if Strategy.MERGE in options.strategies else []
    )


@pytest.mark.parametrize("kind", SPACES)
def test_the_widest_block_the_kernel_takes(kind):
    # Two chains of 32: the masks use bit 63, and the counts need more than 64 bits.
    operators = tuple(op(str(i), *range(i - 1)[-1:], workload="w") for i in range(64))
    block = make_block_graph(OperatorGraph("chains", operators), range(64))
    space = kind(block, SearchOptions())
    assert space.num_states == 33 * 33 - 1
    assert space.count_schedules() > 1 << 64
    space.start([m.bit_count() for m in space.stage_masks], priced=True)
    assert space.best_weight() == (64 << WEIGHT_SHIFT) + 11


def test_counts_beyond_any_machine_word():
    operators = tuple(op(str(i), *range(i - 2)[-1:], workload="w") for i in range(60))
    block = make_block_graph(OperatorGraph("chains", operators), range(60))
    limits = SearchOptions(max_group_size=1)
    native = NativeStateSpace(block, limits)
    assert native.count_schedules() == PythonStateSpace(block, limits).count_schedules()


@pytest.mark.parametrize("kind", SPACES)
def test_too_many_transitions(kind):
    operators = tuple(op(str(i), workload="w") for i in range(8))
    block = make_block_graph(OperatorGraph("wide", operators), range(8))
    with pytest.raises(TooManyTransitionsError, match="more than 100 transitions"):
        kind(block, SearchOptions(max_block_transitions=100))
    exact = kind(block, SearchOptions()).num_transitions
    assert kind(block, SearchOptions(max_block_transitions=exact)).num_transitions == exact


def test_choice_of_the_space():
    operators = tuple(op(str(i), *range(i)[-1:], workload="w") for i in range(65))
    graph = OperatorGraph("chain", operators)
    small, large = make_block_graph(graph, range(64)), make_block_graph(graph, range(65))
    assert isinstance(make_state_space(small, SearchOptions()), NativeStateSpace)
    assert isinstance(make_state_space(small, SearchOptions(native=False)), PythonStateSpace)
    assert isinstance(make_state_space(large, SearchOptions()), PythonStateSpace)
