"""Geometry of a depthwise or grouped convolution: where its elements lie.

Plain numbers, and places as sums of what they are given. Images lie in NHWC, or in blocks of
channels (NCHWc).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm_ios.core.window_tiles import Axis, Tile, tiles_along

__all__ = ["Geometry", "Image", "vector_of"]

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
        """Tiles of a row of the result."""
        return tiles_along(self.columns, MOST_SUMS)


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
