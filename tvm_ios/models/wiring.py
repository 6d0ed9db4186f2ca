"""Random wirings: Watts-Strogatz graphs turned into directed acyclic graphs.

Xie et al., "Exploring Randomly Wired Neural Networks for Image Recognition" (ICCV 2019), section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.errors import OptionError

__all__ = ["Wiring", "watts_strogatz"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """A directed acyclic graph: nodes are 0..n-1 and every edge goes to a larger number.

    Raises
    ------
    OptionError
        If there is no node, or an edge leaves the graph, does not ascend or occurs twice.
    """

    num_nodes: int
    edges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if self.num_nodes < 1:
            raise OptionError(f"a wiring of {self.num_nodes} nodes is empty; use at least 1")
        for edge in self.edges:
            source, destination = edge
            if not 0 <= source < destination < self.num_nodes:
                raise OptionError(
                    f"edge {edge} of a wiring of {self.num_nodes} nodes is not allowed; "
                    "number the nodes from 0 so that every edge goes to a larger number"
                )
        if len(set(self.edges)) != len(self.edges):
            raise OptionError("a wiring lists an edge twice; list every edge once")

    def predecessors(self, node: int) -> tuple[int, ...]:
        """Nodes that ``node`` reads, ascending."""
        return tuple(sorted(source for source, destination in self.edges if destination == node))

    @property
    def sinks(self) -> tuple[int, ...]:
        """Nodes that no other node reads, ascending."""
        read = {source for source, _ in self.edges}
        return tuple(node for node in range(self.num_nodes) if node not in read)


def watts_strogatz(
    num_nodes: int, *, num_neighbours: int = 4, rewire_probability: float = 0.75, seed: int = 0
) -> Wiring:
    """A connected Watts-Strogatz graph, whose edges point at the larger node number.

    Parameters
    ----------
    num_neighbours
        Ring neighbours each node starts with (the K of WS(K, P)).
    rewire_probability
        Chance of each edge to be rewired (the P).

    Raises
    ------
    OptionError
        If the numbers admit no connected graph.
    """
    if not 2 <= num_neighbours < num_nodes or not 0 <= rewire_probability <= 1:
        raise OptionError(
            f"no Watts-Strogatz graph with {num_nodes} nodes, {num_neighbours} neighbours and "
            f"probability {rewire_probability}; use 2 <= neighbours < nodes and a probability "
            "from 0 to 1"
        )
    import networkx as nx  # noqa: PLC0415 - only random wirings need it

    graph = nx.connected_watts_strogatz_graph(
        num_nodes, num_neighbours, rewire_probability, tries=200, seed=seed
    )
    edges = sorted((min(edge), max(edge)) for edge in graph.edges())
    return Wiring(num_nodes=num_nodes, edges=tuple(edges))
