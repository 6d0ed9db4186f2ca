"""Windows along rows and columns of an image, and the tiles that are computed in registers.

Tiles at the ends of a row are others than those within, so nothing has to be padded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Axis", "RowVector", "RowVectors", "Tile", "row_vectors", "tiles_along"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Window of a kernel along rows or columns."""

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


def tiles_along(columns: Axis, most: int) -> Iterator[Tile]:
    """Tiles of a row of at most so many results, neighbours that read data only together."""
    whole = columns.result
    width = -(-whole // -(-whole // most))
    begin = 0
    while begin < whole:
        count = 0
        end = begin + width
        while end <= whole and columns.is_inner(end - width, end):
            count, end = count + 1, end + width
        yield Tile(begin=begin, width=min(width, whole - begin), count=max(1, count))
        begin += width * max(1, count)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVector:
    """Results beside each other in a row that are one vector."""

    offset: int
    """Results of its group before it."""
    lanes: int
    results: int
    """Results among the lanes; the others, the last ones, are nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVectors:
    """Vectors of a row that are computed together, and how many such groups there are."""

    begin: int
    vectors: tuple[RowVector, ...]
    width: int
    """Results from one group to the next."""
    count: int = 1
    """Groups side by side; where there are several, they read data only."""

    def is_loaded(self, columns: Axis, place: int) -> bool:
        """True if a place of the first group, moved along, is one of the data in all groups."""
        last = place + (self.count - 1) * self.width * columns.stride
        return columns.is_inside(place) and columns.is_inside(last)


def row_vectors(columns: Axis, lanes: int, shortest: int, together: int) -> Iterator[RowVectors]:
    """Groups of so many vectors that cover a row; the last vector may overlap the one before.

    A row shorter than a vector is a part of one.
    """
    whole = columns.result
    if whole < lanes:
        vector = RowVector(offset=0, lanes=max(shortest, _power(whole)), results=whole)
        yield RowVectors(begin=0, vectors=(vector,), width=whole)
        return
    begins = [(begin, lanes) for begin in range(0, whole - lanes + 1, lanes)]
    if whole % lanes:
        last = max(shortest, _power(whole % lanes))
        begins.append((whole - last, last))
    width = together * lanes
    while begins:
        begin, group, wholes = begins[0][0], begins[:together], 0
        while _is_whole(
            columns, begins[wholes * together :][:together], begin + wholes * width, width
        ):
            wholes += 1
        yield RowVectors(
            begin=begin,
            vectors=tuple(
                RowVector(offset=at - begin, lanes=each, results=each) for at, each in group
            ),
            width=width,
            count=max(1, wholes),
        )
        begins = begins[max(1, wholes) * together :]


def _is_whole(columns: Axis, group: list[tuple[int, int]], begin: int, width: int) -> bool:
    """True if vectors lie side by side in a range, and read data only."""
    if not group or group[0][0] != begin or sum(group[-1]) != begin + width:
        return False
    return columns.is_inner(begin, begin + width)


def _power(number: int) -> int:
    """Least power of two that is no smaller than a number."""
    return 1 << (number - 1).bit_length()
