"""Geometry of a depthwise or grouped convolution: where its elements lie, and its tiles.

Plain numbers, and places as sums of what they are given. Images lie in NHWC, or in blocks of
channels (NCHWc).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["Axis", "Geometry", "Image", "Tile", "vector_of"]

VECTORS = (16, 8, 4)
"""Numbers of elements of a vector; two short ones take no longer than a long one."""
GAIN = 1.1
"""Times that shorter vectors have to save elements: they need more loads."""
MOST_SUMS = 14
"""Results of a tile: their sums and the weights of a row of the kernel stay in registers."""
NEAR_BYTES = 1 << 20
"""Bytes of data and result that the second cache of a core has."""
MOST_INPUTS = 8
"""Channels of a group of which each is code of its own, since data are shuffled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Strides of an image in elements; channels lie side by side."""

    batch: int
    block: int
    """Elements between blocks of channels; 0 where all channels lie side by side."""
    row: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Window of the kernel along rows or columns."""

    extent: int
    """Elements of the data."""
    result: int
    kernel: int
    stride: int
    before: int
    """Zeros before the data."""
    dilation: int

    def place(self, result: int, tap: int) -> int:
        """Element of the data for an element of the result and a tap; it may lie outside."""
        return result * self.stride + tap * self.dilation - self.before

    def is_inside(self, place: int) -> bool:
        """True for places of the data, False for those of zeros around it."""
        return 0 <= place < self.extent

    def is_inner(self, begin: int, end: int) -> bool:
        """True if results of a range read data only."""
        return self.is_inside(self.place(begin, 0)) and self.is_inside(
            self.place(end - 1, self.kernel - 1)
        )

    @property
    def has_border(self) -> bool:
        """True if a window reaches into the zeros around the data."""
        return not self.is_inner(0, self.result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Results beside each other in a row, computed in registers, and how many such tiles."""

    begin: int
    width: int
    count: int = 1
    """Tiles side by side; where there are several, they read data only."""

    def reads(self, columns: Axis) -> list[tuple[int, list[tuple[int, int]]]]:
        """Columns of the data, counted from the first one, with results and taps that read them."""
        found: dict[int, list[tuple[int, int]]] = {}
        for tap in range(columns.kernel):
            for at in range(self.width):
                if columns.is_inside(columns.place(self.begin + at, tap)):
                    offset = at * columns.stride + tap * columns.dilation
                    found.setdefault(offset, []).append((at, tap))
        return sorted(found.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Depthwise or grouped convolution as loops see it."""

    batch: int
    blocks: int
    """Blocks of channels; 1 where all channels lie side by side."""
    channels: int
    """Channels of the result that lie side by side."""
    group_inputs: int
    group_outputs: int
    rows: Axis
    columns: Axis
    data: Image
    vector: int
    """Elements of a vector."""

    @property
    def chunks(self) -> int:
        """Vectors along channels; the last one may overlap the one before it."""
        return -(-self.channels // self.vector)

    @property
    def is_depthwise(self) -> bool:
        """True if every channel is made from one of its own."""
        return self.group_inputs == self.group_outputs == 1

    @property
    def is_far(self) -> bool:
        """True if data come from beyond the second cache, and not in the order of memory."""
        result = self.blocks * self.channels * self.rows.result * self.columns.result
        return not self.data.block and 4 * self.batch * (self.data.batch + result) > NEAR_BYTES

    @property
    def fills_vectors(self) -> bool:
        """True if no vector of results has channels of two groups."""
        return not self.is_depthwise and self.group_outputs % self.vector == 0

    @property
    def weight_input(self) -> int:
        """Elements from a weight to that of the next channel of the group."""
        return self.channels

    @property
    def weight_tap(self) -> int:
        """Elements from a weight to that of the next tap of a row."""
        return self.channels * self.group_inputs

    def weight_place(self, block: Any, row: Any, channel: Any) -> Any:
        """Element of the weights for a row of the kernel and a channel of the result."""
        line = self.columns.kernel * self.weight_tap
        return (block * self.rows.kernel + row) * line + channel

    def data_place(self, image: Any, block: Any, row: Any, column: Any, channel: Any) -> Any:
        """Element of the data that is the first input of a channel of the result."""
        if not self.is_depthwise:
            channel = channel // self.group_outputs * self.group_inputs
        data = self.data
        first = image * data.batch + block * data.block
        return first + row * data.row + column * data.column + channel

    def tiles(self) -> Iterator[Tile]:
        """Tiles of a row of the result, neighbours that read data only together."""
        whole = self.columns.result
        width = -(-whole // -(-whole // MOST_SUMS))
        begin = 0
        while begin < whole:
            count = 0
            end = begin + width
            while end <= whole and self.columns.is_inner(end - width, end):
                count, end = count + 1, end + width
            yield Tile(begin=begin, width=min(width, whole - begin), count=max(1, count))
            begin += width * max(1, count)


def vector_of(channels: int, group_inputs: int, group_outputs: int) -> int | None:
    """Number of elements of the vectors that suit groups; None where none do."""
    able = [
        vector
        for vector in VECTORS
        if vector <= channels
        and (
            group_outputs % vector == 0
            or (vector % group_outputs == 0 and group_inputs <= MOST_INPUTS)
        )
    ]

    def cost(vector: int) -> float:
        return -(-channels // vector) * vector * GAIN ** VECTORS.index(vector)

    return min(able, key=cost, default=None)
