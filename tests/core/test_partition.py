"""Blocks against the definition of a cut vertex, limits, and large graphs."""

from __future__ import annotations

import random

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.partition import order_ideals, partition_graph, split_operators
from tvm_ios.errors import OptionError


def make_graph(predecessors, barriers=()):
    return OperatorGraph(
        "g",
        tuple(
            op(f"op{i}", *sorted(row), schedulable=i not in barriers)
            for i, row in enumerate(predecessors)
        ),
    )


@st.composite
def predecessor_lists(draw, most=9):
    count = draw(st.integers(0, most))
    return [[tail for tail in range(head) if draw(st.integers(0, 2)) == 0] for head in range(count)]


def _digraph(predecessors):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(predecessors)))
    graph.add_edges_from((tail, head) for head, row in enumerate(predecessors) for tail in row)
    return graph


@given(predecessor_lists())
def test_blocks_end_at_cut_vertices(predecessors):
    graph = _digraph(predecessors)
    count = len(predecessors)
    cuts = [
        v
        for v in range(count)
        if nx.ancestors(graph, v) == set(range(v))
        and nx.descendants(graph, v) == set(range(v + 1, count))
    ]
    expected, start = [], 0
    for cut in cuts:
        expected.append(tuple(range(start, cut + 1)))
        start = cut + 1
    if start < count:
        expected.append(tuple(range(start, count)))
    found = partition_graph(make_graph(predecessors))
    assert [block.operators for block in found.blocks] == expected
    assert found.notes == ()


@given(predecessor_lists(), st.data())
def test_barriers_are_blocks_and_order_is_kept(predecessors, data):
    barriers = data.draw(st.sets(st.integers(0, max(0, len(predecessors) - 1))))
    graph = make_graph(predecessors, barriers)
    found = partition_graph(graph, max_block_size=4, max_block_states=6)
    done = set()
    for block in found.blocks:
        assert block.barrier == any(i in barriers for i in block.operators)
        assert not block.barrier or len(block.operators) == 1
        for index in block.operators:
            done.add(index)
            assert set(predecessors[index]) <= done
    assert sorted(i for block in found.blocks for i in block.operators) == list(range(len(graph)))


@given(predecessor_lists(), st.integers(1, 5), st.integers(2, 12))
def test_limits_are_kept(predecessors, size, states):
    graph = make_graph(predecessors)
    found = partition_graph(graph, max_block_size=size, max_block_states=states)
    for block in found.blocks:
        assert len(block.operators) <= size
        local = {operator: i for i, operator in enumerate(block.operators)}
        masks = [sum(1 << local[p] for p in predecessors[o] if p in local) for o in block.operators]
        assert len(order_ideals(masks)) - 1 <= states


@given(predecessor_lists())
def test_order_ideals(predecessors):
    masks = [sum(1 << p for p in row) for row in predecessors]
    expected = [
        subset
        for subset in range(1 << len(masks))
        if all(masks[i] & ~subset == 0 for i in range(len(masks)) if subset >> i & 1)
    ]
    assert order_ideals(masks) == expected


def test_a_split_is_noted_and_prefers_narrow_places():
    # Two diamonds in a row; operator 3 is an auxiliary output, which forbids a true cut after 4.
    graph = make_graph([[], [0], [0], [1], [1, 2], [4], [4], [5, 6]])
    assert [b.operators for b in partition_graph(graph).blocks] == [(0,), tuple(range(1, 8))]
    found = partition_graph(graph, max_block_states=8)
    assert [b.operators for b in found.blocks] == [(0,), (1, 2, 3, 4), (5, 6, 7)]
    (note,) = found.notes
    assert "block op1 .. op7 with 7 operators was split into 2" in note


@pytest.mark.slow
def test_thousand_operators_of_every_shape():
    rng = random.Random(1)
    shapes = {
        "independent": [[] for _ in range(1000)],
        "chain": [[i - 1] if i else [] for i in range(1000)],
        "wide": [sorted(rng.sample(range(i), min(i, rng.randint(0, 3)))) for i in range(1000)],
        "local": [
            sorted(rng.sample(range(max(0, i - 20), i), min(i, 20, rng.randint(1, 3))))
            for i in range(1000)
        ],
    }
    for predecessors in shapes.values():
        found = partition_graph(make_graph(predecessors))
        assert sum(len(block.operators) for block in found.blocks) == 1000
        assert max(len(block.operators) for block in found.blocks) <= 64


@pytest.mark.parametrize(("size", "states"), [(0, 10), (5, 1), (-1, -1)])
def test_limits_nobody_can_keep(size, states):
    with pytest.raises(OptionError, match="max_block_size"):
        split_operators([0], [0], max_block_size=size, max_block_states=states)


def diamonds(count, begin=0):
    """Predecessors of diamonds one after another, with numbers that begin at some operator."""
    rows, last = [], []
    for _ in range(count):
        top = begin + len(rows)
        rows += [last, [top], [top], [top + 1, top + 2]]
        last = [top + 3]
    return rows


def test_what_has_no_data_in_common_is_cut_as_it_is_alone():
    one, other = diamonds(3), diamonds(4)
    both = make_graph([*one, *diamonds(4, begin=len(one))])
    limits = {"max_block_size": 8, "max_block_states": 100}
    found = partition_graph(both, **limits)
    alone = [
        tuple(begin + index for index in block.operators)
        for begin, rows in ((0, one), (len(one), other))
        for block in partition_graph(make_graph(rows)).blocks
    ]
    assert [block.operators for block in found.blocks] == alone
    assert "28 operators was split" in found.notes[0]
    assert len(partition_graph(both, max_block_size=64, max_block_states=10_000).blocks) == 1


def test_parts_are_told_apart_even_where_their_operators_take_turns():
    one, other = diamonds(3), diamonds(3)
    mixed = [
        [2 * p + side for p in rows[n]] for n in range(12) for side, rows in ((0, one), (1, other))
    ]
    found = partition_graph(make_graph(mixed), max_block_size=8, max_block_states=100)
    assert all(len({index % 2 for index in block.operators}) == 1 for block in found.blocks)
