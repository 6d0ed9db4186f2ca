"""Layouts of images at the least total cost. No TVM.

Comes before a model is prepared: operators on images are places, each with a price in either
layout, and data between two places of different layouts have to be moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm_ios.core.least_cut import least_cut

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
    both_ways: dict[tuple[int, int], int] = defaultdict(int)
    for (one, other), move_ns in costs.moves_ns.items():
        both_ways[one, other] += move_ns
        both_ways[other, one] += move_ns
    last = least_cut(costs.blocks_ns, costs.channels_last_ns, both_ways)
    return tuple(CHANNELS_LAST if each else BLOCKS for each in last)
