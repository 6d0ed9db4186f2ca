"""The search over whole graphs: blocks, barriers, splits, progress, answers that are no prices."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operator_graphs import CONV, op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Strategy
from tvm_ios.core.verify import verify_schedule
from tvm_ios.errors import CostError, GraphError, SearchError
from tvm_ios.search import SearchOptions, search_ios, sequential_schedule


def make_graph(predecessors, barriers=(), name="g"):
    return OperatorGraph(
        name,
        tuple(
            op(f"op{i}", *row, workload="w", schedulable=i not in barriers)
            for i, row in enumerate(predecessors)
        ),
    )


class Longest:
    """A device with lanes enough: a stage takes ten an operator of its longest group, and one."""

    def price(self, graph, stages):
        return [1 + 10 * max(len(group) for group in stage.groups) for stage in stages]


def random_graph(count, seed, reach=None):
    rng = random.Random(seed)
    rows = []
    for i in range(count):
        near = range(max(0, i - reach) if reach else 0, i)
        rows.append(sorted(rng.sample(near, min(len(near), rng.randint(0 if not reach else 1, 3)))))
    return make_graph(rows)


def test_blocks_are_solved_one_by_one(golden, one_block):
    for network, expected in (("inception_v3", 1731154), ("squeezenet", 428282)):
        _, problem = golden[network]
        total = 0
        for part in problem.parts:
            options = SearchOptions(centred_merges=True)
            whole = search_ios(
                part.graph, part.cost_model, options, partition=one_block(part.graph)
            )
            blocks = search_ios(part.graph, part.cost_model, options)
            # The exit of a part joins everything, so it is a block of its own here.
            assert blocks.latency_ns == whole.latency_ns
            assert blocks.states <= whole.states
            total += blocks.latency_ns
        assert total == expected


@given(st.integers(0, 10**6), st.sets(st.integers(0, 11)), st.booleans())
def test_barriers_run_alone(seed, barriers, lazy):
    rows = [op.predecessors for op in random_graph(12, seed).operators]
    graph = make_graph(rows, barriers)
    found = search_ios(graph, Longest(), lazy=lazy)
    verify_schedule(found.schedule, graph, max_group_size=3, max_num_groups=8)
    assert found.schedule.latency_ns == found.latency_ns <= found.sequential_ns
    assert found.latency_ns == sum(Longest().price(graph, found.schedule.stages))


class MergesPay:
    """Whatever may be merged is cheaper merged, the more of it at once the better."""

    def price(self, graph, stages):
        return [self._price(stage) for stage in stages]

    @staticmethod
    def _price(stage):
        merged = stage.strategy is Strategy.MERGE
        return 10 if merged else 10 * len(stage.operators)


def siblings(kernels):
    """Convolutions of one input, and something that reads all of them."""
    operators = [
        op(
            f"conv{position}",
            workload="w",
            convolution=replace(CONV, kernel=kernel, padding=(kernel[0] // 2, kernel[1] // 2) * 2),
        )
        for position, kernel in enumerate(kernels)
    ]
    return OperatorGraph("siblings", (*operators, op("last", *range(len(kernels)))))


@given(
    kernels=st.lists(st.sampled_from([(1, 1), (3, 3), (1, 7), (7, 1)]), min_size=2, max_size=6),
    lazy=st.booleans(),
    native=st.booleans(),
    chain=st.sampled_from([1, 3]),
)
def test_kernels_that_may_not_be_padded_merge_with_their_equals(kernels, lazy, native, chain):
    graph = siblings(kernels)
    options = SearchOptions(
        strategies=frozenset({Strategy.MERGE}), native=native, max_chain_size=chain
    )
    anyhow = search_ios(graph, MergesPay(), options, lazy=lazy)
    assert anyhow.schedule.stages[0].operators == tuple(range(len(kernels)))
    options = replace(options, pad_merged_kernels=False)
    found = search_ios(graph, MergesPay(), options, lazy=lazy)
    assert found.latency_ns == 10 * (len(set(kernels)) + 1)
    for stage in found.schedule.stages[:-1]:
        assert len({kernels[index] for index in stage.operators}) == 1
    verify_schedule(found.schedule, graph, pad_merged_kernels=False)


def test_the_empty_graph():
    found = search_ios(make_graph([]), Longest())
    assert (found.schedule.stages, found.latency_ns, found.num_schedules) == ((), 0, 1)


def test_a_single_operator():
    found = search_ios(make_graph([[]]), Longest())
    assert (found.latency_ns, found.states, found.transitions, found.priced) == (11, 1, 1, 1)


@pytest.mark.parametrize("reach", [None, 12])
def test_a_thousand_operators(reach):
    graph = random_graph(1000, 7, reach)
    found = search_ios(graph, Longest(), SearchOptions(max_block_states=500))
    assert found.latency_ns < found.sequential_ns
    assert any("split" in note for note in found.notes)
    assert max(block.states for block in found.blocks) <= 500


@pytest.mark.slow
def test_a_thousand_wide_operators_with_the_usual_limits():
    found = search_ios(random_graph(1000, 3), Longest())
    assert found.latency_ns < found.sequential_ns


def test_too_many_transitions_split_the_block():
    graph = make_graph([[] for _ in range(8)])
    whole = search_ios(graph, Longest())
    found = search_ios(graph, Longest(), SearchOptions(max_block_transitions=100))
    assert [len(block.operators) for block in found.blocks] == [4, 4]
    assert (whole.latency_ns, found.latency_ns) == (11, 22)
    assert any("op0 .. op7 with 8 operators was split in two" in note for note in found.notes)
    assert "split in two" in found.as_text()


@pytest.mark.parametrize("lazy", [False, True])
def test_progress(lazy):
    graph = make_graph([[], [0], [0], [1, 2], [3], [3]])
    seen = []
    found = search_ios(graph, Longest(), lazy=lazy, progress=seen.append)
    assert [p.block for p in seen] == sorted(p.block for p in seen)
    assert seen[-1].priced == found.priced
    assert {p.num_blocks for p in seen} == {len(found.blocks)}
    best = [p.best_ns for p in seen]
    assert best == sorted(best, reverse=True)
    assert found.sequential_ns == best[0] >= best[-1] >= found.latency_ns
    assert all(p.bound_ns <= b.latency_ns for p in seen for b in [found.blocks[p.block]])


def test_an_exhausted_budget_leaves_the_sequential_schedule():
    graph = make_graph([[], [0], [0], [1, 2]])
    for lazy in (False, True):
        found = search_ios(graph, Longest(), lazy=lazy, should_stop=lambda: True)
        assert set(found.schedule.stages) == set(sequential_schedule(graph).stages)
        assert found.latency_ns == found.sequential_ns == 44
        assert any("stopped early" in note for note in found.notes)


class Answers:
    def __init__(self, answer):
        self.answer = answer

    def price(self, graph, stages):
        return self.answer(stages)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda stages: [1] * (len(stages) + 1), "asked for 2 prices and gave 3"),
        (lambda stages: [-1] * len(stages), "gave -1 for the concurrent stage"),
        (lambda stages: [1.5] * len(stages), "gave 1.5"),
        (lambda stages: [True] * len(stages), "gave True"),
        (lambda stages: [1 << 60] * len(stages), "whole number of nanoseconds"),
        (lambda stages: [None] * len(stages), "gave None"),
    ],
)
def test_answers_that_are_no_prices(answer, message):
    with pytest.raises(SearchError, match=message):
        search_ios(make_graph([[], []]), Answers(answer))


@pytest.mark.parametrize(
    ("method", "answer", "message"),
    [
        ("lower_bound", [], "asked for 3 lower bounds and gave 0"),
        ("lower_bound", [0.5] * 3, "gave 0.5 for the concurrent stage .* a lower bound is a whole"),
        ("floors", [1], "asked for 2 floors and gave 1"),
        ("floors", [-1] * 2, "gave -1"),
    ],
)
def test_answers_that_are_no_bounds(method, answer, message):
    model = Answers(lambda stages: [1] * len(stages))
    setattr(model, method, lambda *_: answer)
    with pytest.raises(SearchError, match=message):
        search_ios(make_graph([[], []]), model)


def test_errors_of_the_cost_model_pass_through():
    def refuse(stages):
        raise CostError("no device")

    with pytest.raises(CostError, match="no device"):
        search_ios(make_graph([[]]), Answers(refuse))


def test_for_a_list_alone_single_operators_are_priced_and_nothing_else():
    asked = []

    def answer(stages):
        asked.extend(stages)
        return [1] * len(stages)

    graph = make_graph([[], [], [0], [1], [2, 3]])
    found = search_ios(graph, Answers(answer), SearchOptions(list_only=True, max_chain_size=3))
    assert found.schedule.stages == sequential_schedule(graph).stages
    assert sorted(stage.groups for stage in asked) == [((index,),) for index in range(5)]
    assert found.notes == ()


def test_numpy_prices_are_taken():
    numpy = pytest.importorskip("numpy")
    found = search_ios(make_graph([[], []]), Answers(lambda s: numpy.full(len(s), 7)))
    assert found.latency_ns == 7


def test_an_ill_formed_graph():
    graph = OperatorGraph("g", (op("a", flops=-1),))
    with pytest.raises(GraphError, match="flops -1"):
        search_ios(graph, Longest())
