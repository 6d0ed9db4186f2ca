"""Order of a tensor's elements after reshapes and transposes, as strides in the tensor. No TVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Self

__all__ = ["ElementOrder", "Moves", "Slice"]

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Moves:
    """The fewest moves that give an order: a reshape, a transpose, a reshape, each if not None."""

    before: Shape | None = None
    axes: tuple[int, ...] | None = None
    after: Shape | None = None

    @property
    def cost(self) -> int:
        """Number of moves, in which a transpose counts as two."""
        return sum(each is not None for each in (self.before, self.axes, self.axes, self.after))


@dataclass(frozen=True, slots=True)
class Slice:
    """Some of the places of an axis."""

    axis: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class _Run:
    """Elements of the tensor at equal distances."""

    stride: int
    extent: int

    @property
    def end(self) -> int:
        return self.stride * self.extent


@dataclass(frozen=True, slots=True)
class ElementOrder:
    """Shape and order of the elements of a tensor that was reshaped and transposed."""

    source: Shape
    """Shape of the tensor."""
    shape: Shape
    runs: tuple[_Run, ...]
    """Nested runs over the tensor's elements, the outermost first; none has one element."""

    @classmethod
    def of(cls, shape: Shape) -> Self:
        """Order of a tensor itself; no extent is zero."""
        return cls(shape, shape, _runs(shape))

    @property
    def is_reshape(self) -> bool:
        """True if the elements lie as in the tensor."""
        return len(_merged(self.runs)) <= 1

    def reshaped(self, shape: Shape) -> ElementOrder:
        """Order with another shape."""
        return ElementOrder(self.source, shape, self.runs)

    def transposed(self, axes: Sequence[int]) -> ElementOrder | None:
        """Order with axes in other places; None where runs do not end where axes do."""
        groups = _split(self.runs, self.shape)
        if groups is None:
            return None
        runs = tuple(run for axis in axes for run in groups[axis])
        return ElementOrder(self.source, tuple(self.shape[axis] for axis in axes), runs)

    def sliced(self, axis: int, begin: int, end: int) -> tuple[Slice, ElementOrder] | None:
        """Slice of the tensor that holds a slice of an axis, and the order of its elements.

        None where what is left lies in several pieces of an axis of the tensor.
        """
        groups = _split(self.runs, self.shape)
        if groups is None or len(groups[axis]) != 1:
            return None
        (cut,) = groups[axis]
        place, whole = self._axis_that_ends_with(cut)
        if place is None:
            return None
        inner = cut.stride // whole.stride
        extent = (end - begin) * inner
        source = (*self.source[:place], extent, *self.source[place + 1 :])
        groups[axis] = [_Run(cut.stride, end - begin)] if end - begin > 1 else []
        runs = tuple(
            run if run.stride < whole.end else _Run(run.stride // whole.extent * extent, run.extent)
            for group in groups
            for run in group
        )
        shape = (*self.shape[:axis], end - begin, *self.shape[axis + 1 :])
        return Slice(place, begin * inner, end * inner), ElementOrder(source, shape, runs)

    def _axis_that_ends_with(self, run: _Run) -> tuple[int | None, _Run]:
        """Axis of the tensor whose outermost part a run is, and its elements."""
        places = [place for place, extent in enumerate(self.source) if extent > 1]
        for place, own in zip(places, _runs(self.source), strict=True):
            if run.stride % own.stride == 0 and own.end == run.end:
                return place, own
        return None, run

    def moves(self) -> Moves:
        """The fewest moves from the tensor to this order."""
        runs = _merged(self.runs)
        if len(runs) <= 1:
            return Moves(after=None if self.shape == self.source else self.shape)
        return self._transpose_of_axes(runs) or self._transpose_of_runs(runs)

    def _transpose_of_axes(self, runs: tuple[_Run, ...]) -> Moves | None:
        """Moves that begin with a transpose; None where that cannot be."""
        own = _runs(self.source)
        parts = [[axis for axis in own if run.stride <= axis.stride < run.end] for run in runs]
        if any(
            prod(axis.extent for axis in part) != run.extent
            for part, run in zip(parts, runs, strict=True)
        ):
            return None
        places = [place for place, extent in enumerate(self.source) if extent > 1]
        ones = [place for place, extent in enumerate(self.source) if extent == 1]
        large = [places[own.index(axis)] for part in parts for axis in part]
        axes = self._with_ones(large, ones) or (*ones, *large)
        made = tuple(self.source[axis] for axis in axes)
        return Moves(axes=axes, after=None if made == self.shape else self.shape)

    def _with_ones(self, large: list[int], ones: list[int]) -> tuple[int, ...] | None:
        """Axes of the tensor in an order that has this shape already; None where none has."""
        wanted = [extent for extent in self.shape if extent > 1]
        if wanted != [self.source[axis] for axis in large] or len(self.source) != len(self.shape):
            return None
        left, rest = iter(ones), iter(large)
        return tuple(next(left if extent == 1 else rest) for extent in self.shape)

    def _transpose_of_runs(self, runs: tuple[_Run, ...]) -> Moves:
        """Moves that begin with a reshape to the runs, with axes of one element as in the shape."""
        extents = [run.extent for run in runs]
        fits = [extent for extent in self.shape if extent > 1] == extents
        shape = self.shape if fits else tuple(extents)
        left = iter(runs)
        strides = [0 if extent == 1 else next(left).stride for extent in shape]
        order = sorted(range(len(shape)), key=lambda axis: (shape[axis] > 1, -strides[axis]))
        return Moves(
            before=tuple(shape[axis] for axis in order),
            axes=tuple(order.index(axis) for axis in range(len(shape))),
            after=None if fits else self.shape,
        )


def _runs(shape: Shape) -> tuple[_Run, ...]:
    found, stride = [], 1
    for extent in reversed(shape):
        if extent > 1:
            found.append(_Run(stride, extent))
        stride *= extent
    return tuple(reversed(found))


def _merged(runs: Sequence[_Run]) -> tuple[_Run, ...]:
    """Runs of which no two neighbours are one run."""
    merged: list[_Run] = []
    for run in runs:
        if merged and merged[-1].stride == run.end:
            merged[-1] = _Run(run.stride, merged[-1].extent * run.extent)
        else:
            merged.append(run)
    return tuple(merged)


def _split(runs: Sequence[_Run], shape: Shape) -> list[list[_Run]] | None:
    """Runs of each axis; None where an axis ends within a run that it does not divide."""
    left = list(_merged(runs))[::-1]
    groups: list[list[_Run]] = []
    for extent in shape:
        group: list[_Run] = []
        rest = extent
        while rest > 1:
            run = left.pop()
            if run.extent > rest:
                if run.extent % rest:
                    return None
                left.append(_Run(run.stride, run.extent // rest))
                run = _Run(run.stride * (run.extent // rest), rest)
            elif rest % run.extent:
                return None
            group.append(run)
            rest //= run.extent
        groups.append(group)
    return groups
