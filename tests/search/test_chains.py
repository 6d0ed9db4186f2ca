"""Chains as schedule units: what is joined, what is not, and that nothing is lost by it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import operator_graphs
from tests.operator_graphs import CONV
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.core.verify import verify_schedule
from tvm_ios.search.block_graph import make_block_graph
from tvm_ios.search.chains import contract_chains
from tvm_ios.search.exhaustive import solve_exhaustively
from tvm_ios.search.ios import search_ios
from tvm_ios.search.lazy import solve_lazily
from tvm_ios.search.native_space import make_state_space
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.pricer import Pricer
from tvm_ios.search.state_space import WEIGHT_SHIFT
from tvm_ios_lab.problems.synthetic import PrimitiveWork, SyntheticConstants, SyntheticCostModel

CONCURRENT = frozenset({Strategy.CONCURRENT})
op = partial(operator_graphs.op, flops=1)


@st.composite
def graphs(draw, least=0, most=12):
    """Random graphs rich in chains, with barriers."""
    operators = []
    for index in range(draw(st.integers(least, most))):
        near = list(range(max(0, index - 3), index))
        if index and draw(st.booleans()):
            reads = [index - 1]
        else:
            reads = sorted(draw(st.sets(st.sampled_from(near), max_size=3))) if near else []
        operators.append(op(f"o{index}", *reads, schedulable=draw(st.integers(0, 9)) > 0))
    return OperatorGraph("g", tuple(operators))


def contract(graph, most=3, **options):
    return contract_chains(graph, max_chain_size=most, **{"keep_mergeable": False, **options})


class Digest:
    """Prices without any rule: a stage costs what the digest of its groups says."""

    def price(self, graph, stages):
        return [self._price(frozenset(stage.groups)) for stage in stages]

    @staticmethod
    @cache
    def _price(groups):
        digest = hashlib.sha256(repr(sorted(map(sorted, groups))).encode()).digest()
        return 100 + digest[0] + 60 * sum(map(len, groups))


@given(graphs(), st.integers(1, 5))
def test_units_partition_the_operators_into_chains(graph, most):
    contraction = contract(graph, most)
    members = contraction.members
    assert sorted(index for unit in members for index in unit) == list(range(len(graph)))
    readers = graph.successor_masks()
    for unit in members:
        assert 1 <= len(unit) <= most
        for earlier, later in pairwise(unit):
            assert graph.operators[later].predecessors == (earlier,)
            assert readers[earlier] == 1 << later
        if len(unit) > 1:
            assert all(graph.operators[index].schedulable for index in unit)


@given(graphs(), st.integers(1, 5))
def test_edges_between_units_are_those_between_their_operators(graph, most):
    contraction = contract(graph, most)
    unit_of = {index: unit for unit, row in enumerate(contraction.members) for index in row}
    whole = nx.DiGraph()
    whole.add_nodes_from(range(len(contraction.members)))
    for head, operator in enumerate(graph.operators):
        for tail in operator.predecessors:
            if unit_of[tail] != unit_of[head]:
                whole.add_edge(unit_of[tail], unit_of[head])
    assert nx.is_directed_acyclic_graph(whole)
    for unit, operator in enumerate(contraction.graph.operators):
        assert operator.predecessors == tuple(sorted(whole.predecessors(unit)))
    assert sum(o.flops for o in contraction.graph.operators) == len(graph)


@given(graphs())
def test_a_limit_of_one_changes_nothing(graph):
    contraction = contract(graph, 1)
    assert contraction.graph == graph
    assert contraction.members == tuple((index,) for index in range(len(graph)))


@pytest.mark.slow
@given(graphs(), st.integers(1, 4))
def test_chains_are_as_long_as_allowed(graph, most):
    """Two units that could be one are two only because of the limit."""
    contraction = contract(graph, most)
    readers = graph.successor_masks()
    ends = {row[-1]: row for row in contraction.members}
    for row in contraction.members:
        (head,) = row[:1]
        before = graph.operators[head].predecessors
        joinable = (
            len(before) == 1
            and readers[before[0]] == 1 << head
            and graph.operators[head].schedulable
            and graph.operators[before[0]].schedulable
        )
        if joinable:
            assert len(ends[before[0]]) == most


def test_convolutions_that_could_merge_stay_apart():
    left = right = CONV
    graph = OperatorGraph(
        "g",
        (
            op("input"),
            op("left", 0, convolution=left),
            op("left-pool", 1),
            op("right", 0, convolution=right),
            op("right-pool", 3),
            op("alone", 4, convolution=replace(CONV, operand="y")),
            op("end", 5),
        ),
    )
    assert contract(graph).members == ((0,), (1, 2), (3, 4, 5), (6,))
    kept = contract(graph, keep_mergeable=True)
    assert kept.members == ((0,), (1,), (2,), (3,), (4, 5, 6))
    assert kept.graph.operators[1].convolution == left
    assert kept.graph.operators[4].convolution is None


def test_convolutions_that_merge_only_with_padding_stay_apart_only_where_that_is_allowed():
    graph = OperatorGraph(
        "g",
        (
            op("input"),
            op("left", 0, convolution=CONV),
            op("left-pool", 1),
            op("right", 0, convolution=replace(CONV, kernel=(3, 3), padding=(1, 1, 1, 1))),
            op("right-pool", 3),
        ),
    )
    assert contract(graph, keep_mergeable=True).members == ((0,), (1,), (2,), (3,), (4,))
    apart = contract(graph, keep_mergeable=True, pad_kernels=False)
    assert apart.members == ((0,), (1, 2), (3, 4))


def test_equal_chains_have_equal_workloads():
    graph = OperatorGraph(
        "g",
        tuple(
            replace(op(f"o{index}", *reads), workload=workload)
            for index, (reads, workload) in enumerate(
                [((), "in"), ((0,), "a"), ((1,), "b"), ((0,), "a"), ((3,), "b"), ((0,), "b")]
            )
        ),
    )
    units = contract(graph).graph.operators
    assert units[1].workload == units[2].workload
    assert units[1].workload not in {"a", "b", units[3].workload}
    assert units[3].workload == "b"


def test_chain_prices_are_those_of_the_operators():
    graph = OperatorGraph("g", (op("a"), op("b", 0), op("c", 0), op("d", 2), op("e", 1, 3)))
    contraction = contract(graph)
    assert contraction.members == ((0,), (1,), (2, 3), (4,))
    stage = Stage(((1,), (2,)))
    assert contraction.expand(stage) == Stage(((1,), (2, 3)))
    assert contraction.expand_operators((2, 0)) == (0, 2, 3)
    prices = Pricer(graph, Digest(), contraction)
    assert prices.price([stage]) == Digest().price(graph, [Stage(((1,), (2, 3)))])
    assert prices.singles_ns == Digest().price(
        graph, [Stage((unit,)) for unit in contraction.members]
    )


@pytest.mark.slow(1)
@given(graphs(), st.integers(1, 4), st.booleans())
def test_a_search_over_chains_gives_a_schedule_of_the_operators(graph, most, lazy):
    options = SearchOptions(strategies=CONCURRENT, max_chain_size=most)
    found = search_ios(graph, Digest(), options, lazy=lazy)
    verify_schedule(found.schedule, graph, max_group_size=3 * most, max_num_groups=8)
    assert found.latency_ns == sum(Digest().price(graph, found.schedule.stages))
    for unit in contract(graph, most).members:
        (group,) = {
            group
            for stage in found.schedule.stages
            for group in stage.groups
            if set(group) & set(unit)
        }
        assert set(unit) <= set(group)
    covered = [index for block in found.blocks for index in block.operators]
    assert sorted(covered) == list(range(len(graph)))


def solved(graph, contraction, cost_model, options, *, lazy):
    """The best latency of all units in one block, and how many stages were priced for it."""
    pricer = Pricer(graph, cost_model, contraction)
    units = contraction.graph
    block = make_block_graph(units, range(len(units)))
    space = make_state_space(block, options)
    if lazy:
        assert solve_lazily(block, space, pricer)
    else:
        solve_exhaustively(block, space, pricer)
    return space.best_weight() >> WEIGHT_SHIFT, pricer.count


def without_barriers(graph):
    return OperatorGraph("g", tuple(replace(o, schedulable=True) for o in graph.operators))


@pytest.mark.slow(1)
@given(graphs(least=1), st.booleans())
def test_units_of_one_operator_change_nothing(one_block, graph, lazy):
    graph = without_barriers(graph)
    options = SearchOptions(strategies=CONCURRENT)
    plain = search_ios(graph, Digest(), options, lazy=lazy, partition=one_block(graph))
    again = solved(graph, contract(graph, 1), Digest(), options, lazy=lazy)
    assert again == (plain.latency_ns, plain.priced)


def shortest(graph, units, prices, r, s):
    """The best schedule that keeps units together, by trying every one: no search code here."""
    edges = [(tail, head) for head, o in enumerate(graph.operators) for tail in o.predecessors]
    unit_of = {index: unit for unit, row in enumerate(units) for index in row}

    def stages(left):
        for mask in range(1, 1 << len(left)):
            chosen = {index for place, index in enumerate(sorted(left)) if mask >> place & 1}
            if any(tail in chosen and head in left - chosen for tail, head in edges):
                continue
            if any(0 < len(chosen & set(units[unit_of[i]])) < len(units[unit_of[i]]) for i in left):
                continue
            inner = nx.Graph()
            inner.add_nodes_from(chosen)
            inner.add_edges_from((t, h) for t, h in edges if t in chosen and h in chosen)
            groups = [tuple(sorted(part)) for part in nx.connected_components(inner)]
            sizes = [len({unit_of[index] for index in group}) for group in groups]
            if len(groups) <= s and max(sizes) <= r:
                yield chosen, Stage(tuple(sorted(groups)))

    @cache
    def best(left):
        return min(
            (
                prices.price(graph, [stage])[0] + best(left - chosen)
                for chosen, stage in stages(left)
            ),
            default=0,
        )

    return best(frozenset(range(len(graph))))


@pytest.mark.slow(1)
@given(
    graphs(least=1, most=7), st.integers(2, 3), st.integers(1, 3), st.integers(1, 3), st.booleans()
)
def test_the_optimum_is_that_of_all_schedules_that_keep_chains(graph, most, r, s, lazy):
    graph = without_barriers(graph)
    number = len(graph)
    constants = SyntheticConstants(
        peak_per_ns=3, saturation=50, launch_ns=7, host_ns=3, barrier_ns=11
    )
    works = [[PrimitiveWork(40 + 37 * i % 91, 10 + 29 * i % 60, 1)] for i in range(number)]
    synthetic = SyntheticCostModel(constants, works)
    units = contract(graph, most)
    options = SearchOptions(strategies=CONCURRENT, max_group_size=r, max_num_groups=s)
    for prices in (Digest(), synthetic) if not lazy else (synthetic,):
        found, _ = solved(graph, units, prices, options, lazy=lazy)
        assert found == shortest(graph, units.members, prices, r, s)


class Bounded(Digest):
    """Prices without any rule, with bounds; a part of a stage says nothing about the stage."""

    description = "digests"

    def __init__(self, graph, percent):
        self.graph = graph
        self.percent = percent

    def price(self, graph, stages):
        assert graph is self.graph
        return super().price(graph, stages)

    def lower_bound(self, graph, stages):
        return [price * self.percent // 100 for price in self.price(graph, stages)]

    def floors(self, graph, stages, prices_ns):
        assert list(prices_ns) == self.price(graph, stages)
        return [0] * len(stages)


@given(
    graphs(least=1, most=7),
    st.integers(2, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 100),
)
def test_bounds_and_floors_hold_for_chains(graph, most, r, s, percent):
    """Prices are such that a bound or floor of another stage than the one asked for is wrong."""
    graph = without_barriers(graph)
    units = contract(graph, most)
    options = SearchOptions(strategies=CONCURRENT, max_group_size=r, max_num_groups=s)
    model = Bounded(graph, percent)
    found, _ = solved(graph, units, model, options, lazy=True)
    assert found == shortest(graph, units.members, model, r, s)


def test_bounds_of_the_cost_model_save_prices_of_chains():
    rows = [op("in")]
    for _ in range(4):
        rows += [op(f"a{len(rows)}", 0), op(f"b{len(rows)}", len(rows))]
    graph = OperatorGraph("g", (*rows, op("out", 2, 4, 6, 8)))
    units = contract(graph, 2)
    assert units.members == ((0,), (1, 2), (3, 4), (5, 6), (7, 8), (9,))
    options = SearchOptions(strategies=CONCURRENT, max_chain_size=2)
    loose, tight = (solved(graph, units, Bounded(graph, p), options, lazy=True) for p in (0, 100))
    assert loose[0] == tight[0]
    assert tight[1] < loose[1]
    found = search_ios(graph, Bounded(graph, 100), options)
    assert found.priced < search_ios(graph, Bounded(graph, 0), options).priced
    assert found.schedule.priced_by == "digests"


@pytest.mark.parametrize("most", [1, 2, 3])
def test_longer_chains_mean_fewer_states(most):
    rows = [op("in")]
    for branch in range(4):
        for step in range(3):
            reads = 0 if not step else len(rows) - 1
            rows.append(op(f"b{branch}s{step}", reads))
    rows.append(op("out", 3, 6, 9, 12))
    graph = OperatorGraph("g", tuple(rows))
    options = SearchOptions(strategies=CONCURRENT, max_chain_size=most, max_group_size=0)
    found = search_ios(graph, Digest(), options, lazy=False)
    per_branch = {1: 4, 2: 3, 3: 2}[most]
    assert found.states == 2 + per_branch**4 - 1
