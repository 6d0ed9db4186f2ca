"""Layouts of images at the least total cost, by a minimum cut. No TVM.

Comes before a model is prepared: operators on images are places, each with a price in either
layout, and data between two places of different layouts have to be moved. With two layouts this is
a minimum cut, so the answer is exact, in a time that hardly grows faster than the network (Boykov,
Veksler, Zabih, PAMI 2001, section 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["BLOCKS", "CHANNELS_LAST", "ImageForm", "LayoutCosts", "cheapest_layouts"]

BLOCKS = "NCHW"
"""Layout that TVM packs into blocks of channels on a CPU."""
CHANNELS_LAST = "NHWC"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageForm:
    """Form of a model's convolutions: which of them are written anew, and the layout of each."""

    written: tuple[int, ...] = ()
    """Transposed convolutions that become convolutions, by their number among the transposed ones,
    ascending."""
    layouts: tuple[str, ...]
    """Layout of each convolution and transposed convolution after that, in the order of the
    model: :data:`BLOCKS` or :data:`CHANNELS_LAST`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutCosts:
    """Prices of all places in both layouts, and of moves between places."""

    blocks_ns: Sequence[int]
    """Nanoseconds of each place in blocks of channels."""
    channels_last_ns: Sequence[int]
    """Nanoseconds of each place with channels last."""
    moves_ns: Mapping[tuple[int, int], int]
    """Nanoseconds of moves between two places, if their layouts differ."""


def cheapest_layouts(costs: LayoutCosts) -> tuple[str, ...]:
    """Layout of each place, so that prices and moves add up to the least sum."""
    import networkx as nx  # noqa: PLC0415 - half a second, and only models with images need it

    if not costs.blocks_ns:
        return ()
    graph = nx.DiGraph()
    for place, prices_ns in enumerate(zip(costs.blocks_ns, costs.channels_last_ns, strict=True)):
        # A place on the side of BLOCKS pays its edge from the other side, and so the price there.
        graph.add_edge(CHANNELS_LAST, place, capacity=prices_ns[0])
        graph.add_edge(place, BLOCKS, capacity=prices_ns[1])
    for (one, other), move_ns in costs.moves_ns.items():
        graph.add_edge(one, other, capacity=move_ns)
        graph.add_edge(other, one, capacity=move_ns)
    _, (channels_last, _) = nx.minimum_cut(graph, CHANNELS_LAST, BLOCKS)
    places = range(len(costs.blocks_ns))
    return tuple(CHANNELS_LAST if place in channels_last else BLOCKS for place in places)
