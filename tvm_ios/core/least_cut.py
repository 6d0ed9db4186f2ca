"""Two choices at each of many places, at the least total cost, by a minimum cut. No TVM.

Places have a price for either choice, and some pairs of them a price for choosing differently. With
two choices this is a minimum cut, so the answer is exact, in a time that hardly grows faster than
the places (Boykov, Veksler, Zabih, PAMI 2001, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

__all__ = ["least_cut"]


def least_cut(
    first_ns: Sequence[float],
    second_ns: Sequence[float],
    apart_ns: Mapping[tuple[int, int], float],
) -> tuple[bool, ...]:
    """Choice of each place: True for the second one.

    Parameters
    ----------
    first_ns, second_ns
        Nanoseconds of each place with either choice; infinite where it cannot be made.
    apart_ns
        Nanoseconds where the first place of a pair has the second choice, and the other place the
        first one; infinite where they may not.
    """
    import networkx as nx  # noqa: PLC0415 - half a second, and not every model needs it

    if not first_ns:
        return ()
    first, second = "first", "second"
    graph = nx.DiGraph()
    graph.add_nodes_from((first, second))

    def connect(one: int | str, other: int | str, cost_ns: float) -> None:
        # Without a capacity an edge is never cut.
        if math.isinf(cost_ns):
            graph.add_edge(one, other)
        elif cost_ns:
            graph.add_edge(one, other, capacity=cost_ns)

    for place, (one_ns, other_ns) in enumerate(zip(first_ns, second_ns, strict=True)):
        # A place on the side of the first choice pays its edge from the other side.
        connect(second, place, one_ns)
        connect(place, first, other_ns)
    for (one, other), cost_ns in apart_ns.items():
        connect(one, other, cost_ns)
    _, (with_second, _) = nx.minimum_cut(graph, second, first)
    return tuple(place in with_second for place in range(len(first_ns)))
