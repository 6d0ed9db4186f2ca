"""Endings against their definition, on random graphs."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.core.endings import (
    EndingRule,
    admissible_groups,
    components,
    descendant_masks,
    disjoint_unions,
    sink_mask,
)
from tvm_ios.core.graph import bits_of, mask_of


@st.composite
def graphs(draw, most=7):
    """Direct successor masks of a random directed acyclic graph in topological order."""
    count = draw(st.integers(1, most))
    successors = [0] * count
    for head in range(count):
        for tail in range(head):
            if draw(st.booleans()):
                successors[tail] |= 1 << head
    return successors


@st.composite
def graphs_and_states(draw):
    successors = draw(graphs())
    chosen = draw(st.integers(0, (1 << len(successors)) - 1))
    state = 0
    for index in reversed(range(len(successors))):
        if chosen >> index & 1 or successors[index] & state:
            state |= 1 << index
    return successors, state


def _digraph(successors):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(successors)))
    graph.add_edges_from((tail, head) for tail, m in enumerate(successors) for head in bits_of(m))
    return graph


def _subsets(state):
    indices = bits_of(state)
    for size in range(1, len(indices) + 1):
        yield from (mask_of(chosen) for chosen in combinations(indices, size))


def _neighbours(successors):
    neighbours = list(successors)
    for tail, mask in enumerate(successors):
        for head in bits_of(mask):
            neighbours[head] |= 1 << tail
    return neighbours


def _by_definition(successors, state, rule, r, s):
    graph = _digraph(successors)
    found = set()
    for subset in _subsets(state):
        if any(successors[i] & state & ~subset for i in bits_of(subset)):
            continue
        groups = [set(c) for c in nx.weakly_connected_components(graph.subgraph(bits_of(subset)))]
        if s and len(groups) > s:
            continue
        if r and any(len(group) > r for group in groups):
            continue
        if rule is EndingRule.PUBLISHED and any(
            sum(1 for i in group if not group & set(graph.predecessors(i))) != 1 for group in groups
        ):
            continue
        found.add(frozenset(frozenset(group) for group in groups))
    return found


@given(graphs_and_states(), st.sampled_from(EndingRule), st.integers(0, 4), st.integers(0, 4))
def test_endings_are_those_of_the_definition(case, rule, r, s):
    successors, state = case
    groups = admissible_groups(state, descendant_masks(successors), rule, r)
    neighbours = _neighbours(successors)
    found = [components(ending, neighbours) for ending in disjoint_unions(groups, s)]
    as_sets = [frozenset(frozenset(bits_of(group)) for group in groups) for groups in found]
    assert len(as_sets) == len(set(as_sets))
    assert set(as_sets) == _by_definition(successors, state, rule, r, s)
    for groups in found:
        assert list(groups) == sorted(groups, key=lambda group: group & -group)


@given(graphs())
def test_descendants(successors):
    graph = _digraph(successors)
    for index, mask in enumerate(descendant_masks(successors)):
        assert set(bits_of(mask)) == {index} | nx.descendants(graph, index)


@given(graphs_and_states())
def test_sinks(case):
    successors, state = case
    sinks = {i for i in bits_of(state) if not set(bits_of(successors[i])) & set(bits_of(state))}
    assert set(bits_of(sink_mask(state, successors))) == sinks


@given(graphs(), st.data())
def test_components(successors, data):
    subset = data.draw(st.integers(0, (1 << len(successors)) - 1))
    graph = _digraph(successors).subgraph(bits_of(subset))
    expected = {frozenset(c) for c in nx.weakly_connected_components(graph)}
    found = components(subset, _neighbours(successors))
    assert {frozenset(bits_of(c)) for c in found} == expected


def test_groups_are_ascending_and_unions_come_depth_first():
    groups = admissible_groups(0b111, descendant_masks([0, 0, 0]), EndingRule.COMPLETE, 0)
    assert groups == [1, 2, 4]
    assert disjoint_unions(groups, 2) == [1, 3, 5, 2, 6, 4]
    assert disjoint_unions(groups, 0) == [1, 3, 7, 5, 2, 6, 4]


def test_nothing_ends_the_empty_state():
    groups = admissible_groups(0, descendant_masks([0, 0]), EndingRule.COMPLETE, 0)
    assert disjoint_unions(groups, 0) == []
