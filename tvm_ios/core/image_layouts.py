"""Layouts of images at the least total cost. No TVM.

Comes before a model is prepared: operators on images are places, each with a price in either
layout, and data between two places of different layouts have to be moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tvm_ios.core.least_cut import least_cut

__all__ = [
    "BLOCKS",
    "CHANNELS_LAST",
    "ConvolutionSizes",
    "ImageForm",
    "ImagePlaces",
    "LayoutCosts",
    "PlaceReader",
    "cheapest_layouts",
]

BLOCKS = "NCHW"
"""Layout that TVM packs into blocks of channels on a CPU."""
CHANNELS_LAST = "NHWC"
C = TypeVar("C")
"""Convolution of a dialect."""


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
class ConvolutionSizes:
    """Sizes of a two-dimensional convolution, whatever its layout: equal where prices are."""

    data: tuple[int, ...]
    """Images, channels, height and width."""
    result: tuple[int, ...]
    """Images, channels, height and width."""
    kernel: tuple[int, ...]
    """Output channels, input channels of a group, height and width."""
    strides: tuple[int, ...]

    @classmethod
    def read(
        cls, layouts: Sequence[str], shapes: Sequence[Sequence[int]], strides: tuple[int, ...]
    ) -> ConvolutionSizes | None:
        """Sizes of data, kernel and result in these layouts; None where a shape is of another."""
        if any(
            sum(map(str.isalpha, layout)) != len(shape)
            for layout, shape in zip(layouts, shapes, strict=True)
        ):
            return None
        data, kernel, result = (
            tuple(extents[letter] for letter in plain)
            for plain, extents in zip(
                (BLOCKS, "OIHW", BLOCKS), map(_extents, layouts, shapes), strict=True
            )
        )
        return cls(data=data, result=result, kernel=kernel, strides=strides)


def _extents(layout: str, shape: Sequence[int]) -> Mapping[str, int]:
    """Extent of each axis, by its letter; blocks of an axis have the same one, in lower case."""
    found: dict[str, int] = defaultdict(lambda: 1)
    for letter, extent in zip(filter(str.isalpha, layout), shape, strict=True):
        found[letter.upper()] *= extent
    return found


@dataclass(slots=True)
class ImagePlaces(Generic[C]):
    """Places of one model."""

    convolutions: list[C] = field(default_factory=list)
    """Convolution of each place."""
    copied_bytes: list[int] = field(default_factory=list)
    """Bytes that operators at each place copy with channels last only."""
    unblocked_bytes: list[int] = field(default_factory=list)
    """Bytes at each place that leave their blocks of channels and go back, since they are cut or
    joined where no block ends."""
    moved_bytes: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    """Bytes that go from place to place, laid out anew if their layouts differ."""
    joined_bytes: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    """Bytes of concatenations of data from both places. TVM lays all of them out in plain axes if
    the layouts differ, and so what follows."""


class PlaceReader(Generic[C]):
    """Reader of a model's calls in order, each with its result and the images it reads.

    TVM lets element-wise operators, poolings and concatenations follow the layout of their first
    image, and so they belong to its place; another image of theirs is moved where it has another
    layout. Images are pairs of a value at a place and its bytes.
    """

    def __init__(self, block: int) -> None:
        """Reader for blocks of so many channels."""
        self.places: ImagePlaces[C] = ImagePlaces()
        self._block = block
        self._place_of: dict[Hashable, int] = {}

    def has(self, value: Hashable) -> bool:
        """True if a value lies at a place."""
        return value in self._place_of

    def same(self, value: Hashable, other: Hashable) -> None:
        """Read a value that lies where another one does, if that has a place."""
        if other in self._place_of:
            self._place_of[value] = self._place_of[other]

    def convolution(
        self, result: Hashable, images: Sequence[tuple[Hashable, int]], convolution: C
    ) -> None:
        """Read a convolution, which has a place of its own."""
        place = self._place_of[result] = len(self.places.convolutions)
        self.places.convolutions.append(convolution)
        self.places.copied_bytes.append(0)
        self.places.unblocked_bytes.append(0)
        self._moved(images, place)

    def follower(
        self,
        result: Hashable,
        images: Sequence[tuple[Hashable, int]],
        *,
        channels: Sequence[int] = (),
        joins: bool = False,
    ) -> None:
        """Read an operator that follows the layout of its first image.

        ``channels`` are those of all images and results where it cuts or joins along them;
        ``joins`` is for concatenations along any axis.
        """
        place = self._place_of[result] = self._place_of[images[0][0]]
        total = sum(size for _, size in images)
        if channels:
            self.places.copied_bytes[place] += total
            if any(each % self._block for each in channels):
                self.places.unblocked_bytes[place] += total
        for other in self._moved(images, place):
            if joins:
                self.places.joined_bytes[other, place] += total

    def _moved(self, images: Sequence[tuple[Hashable, int]], place: int) -> list[int]:
        """Other places, once for each of their images, which are moved from there."""
        others = [(self._place_of[value], size) for value, size in images]
        for other, size in others:
            if other != place:
                self.places.moved_bytes[other, place] += size
        return [other for other, _ in others if other != place]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutCosts:
    """Prices of all places in both layouts, and of moves between places."""

    blocks_ns: Sequence[float]
    """Nanoseconds of each place in blocks of channels; infinite where it cannot be so."""
    channels_last_ns: Sequence[float]
    """Nanoseconds of each place with channels last."""
    moves_ns: Mapping[tuple[int, int], int]
    """Nanoseconds of moves between two places, if their layouts differ."""

    def total_ns(self, layouts: Sequence[str]) -> float:
        """Nanoseconds of all places in these layouts, with moves between them."""
        prices = zip(layouts, self.blocks_ns, self.channels_last_ns, strict=True)
        moves = self.moves_ns.items()
        return sum(
            last if each == CHANNELS_LAST else blocks for each, blocks, last in prices
        ) + sum(ns for (one, other), ns in moves if layouts[one] != layouts[other])


def cheapest_layouts(costs: LayoutCosts) -> tuple[str, ...]:
    """Layout of each place, so that prices and moves add up to the least sum."""
    both_ways: dict[tuple[int, int], int] = defaultdict(int)
    for (one, other), move_ns in costs.moves_ns.items():
        both_ways[one, other] += move_ns
        both_ways[other, one] += move_ns
    last = least_cut(costs.blocks_ns, costs.channels_last_ns, both_ways)
    return tuple(CHANNELS_LAST if each else BLOCKS for each in last)
