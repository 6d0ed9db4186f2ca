from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_ios.errors import OptionError
from tvm_ios.models.wiring import Wiring, watts_strogatz


@settings(deadline=None, max_examples=50)
@given(num_nodes=st.integers(5, 40), seed=st.integers(0, 1000))
def test_generated_wiring_is_connected_ascending_and_has_the_edges_of_the_ring(num_nodes, seed):
    wiring = watts_strogatz(num_nodes, seed=seed)
    graph = nx.Graph(wiring.edges)
    assert graph.number_of_nodes() == num_nodes
    assert nx.is_connected(graph)
    assert len(wiring.edges) == 2 * num_nodes
    assert wiring == watts_strogatz(num_nodes, seed=seed)


def test_predecessors_and_sinks():
    wiring = Wiring(num_nodes=4, edges=((1, 2), (0, 2)))
    assert wiring.predecessors(2) == (0, 1)
    assert wiring.sinks == (2, 3)


@pytest.mark.parametrize(
    ("num_nodes", "edges", "message"),
    [
        (0, (), "empty"),
        (3, ((1, 1),), "larger number"),
        (3, ((2, 1),), "larger number"),
        (3, ((0, 3),), "larger number"),
        (3, ((0, 1), (0, 1)), "twice"),
    ],
)
def test_a_malformed_wiring_is_refused(num_nodes, edges, message):
    with pytest.raises(OptionError, match=message):
        Wiring(num_nodes=num_nodes, edges=edges)


@pytest.mark.parametrize(
    "options",
    [
        {"num_nodes": 4},
        {"num_nodes": 8, "num_neighbours": 1},
        {"num_nodes": 8, "rewire_probability": 1.5},
    ],
)
def test_impossible_graphs_are_refused(options):
    with pytest.raises(OptionError, match="no Watts-Strogatz graph"):
        watts_strogatz(**options)
