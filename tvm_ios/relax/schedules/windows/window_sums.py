"""Sums of a window in registers: what the window is, how sums grow, and how they are written."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.core.window_tiles import Axis
from tvm_ios.relax.schedules.arithmetic import calls_dear
from tvm_ios.relax.schedules.tiles import element_written, over_tasks

__all__ = ["Places", "Slide", "Sliding", "WindowSums", "lanes_in_registers"]

Places = Sequence[tuple[tirx.Var, Value]]
"""Variables, and what stands for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slide:
    """Axis along which a window slides."""

    axis: Axis
    tap: tirx.Var | None
    """Variable of the window along it; None where it has one element there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sliding:
    """Kernel with one window along rows of an image: its axes, sums, and what it writes."""

    along_rows: bool
    """True if vectors lie along rows, False if all elements of one are of the same column."""
    results: tuple[tirx.Var, ...]
    """Variables of the result: the last lies in vectors; it or the one before counts columns."""
    extents: tuple[int, ...]
    """Extents of these."""
    row: tirx.Var | None
    """Variable of the result that counts rows along which a window slides or data are padded."""
    slides: Mapping[tirx.Var, Slide]
    """Axes of the data by variables of the result."""
    inputs: Mapping[tirx.Var, int]
    """Variable over channels of the data that are summed up, if any, and its extent."""
    combine: Callable[[Value, Value], Value]
    """Sum or maximum."""
    first: float
    """Number that the sum or maximum begins with."""
    added: Value
    """Term of the sum or maximum, by the element and the variables of result, window and inputs."""
    element: tirx.Var
    """Element of the data, as the term has it."""
    data: Value
    """Load of that element from the array that the window slides over."""
    around: float
    """Value of elements beyond the ends of the data."""
    total: Any
    """Array of the sums, which the statement that writes results reads."""
    write: tirx.BufferStore
    """Statement that writes an element of the result."""
    named: tuple[tirx.Var, ...]
    """Names of the variables of the result in that statement."""

    @property
    def taps(self) -> int:
        """Terms of a sum."""
        kernels = [each.axis.kernel for each in self.slides.values()]
        return math.prod((*kernels, *self.inputs.values()))


@dataclass(frozen=True, slots=True)
class WindowSums:
    """Statements on vectors of a window's sums."""

    sliding: Sliding

    def started(self, sums: Sequence[Any]) -> list[tirx.Stmt]:
        """Statements that declare sums and set them to what they begin with."""
        first = tirx.const(self.sliding.first, "float32")
        return [
            *map(tirx.AllocBuffer, sums),
            *(self.stored(each, 0, int(each.shape[0]), lambda _: first) for each in sums),
        ]

    def added(self, total: Any, value: Callable[[tirx.Var], Value]) -> tirx.Stmt:
        """Statement that combines a vector of sums with terms, given by their lane."""

        def combined(at: tirx.Var) -> Value:
            return self.sliding.combine(total[at], value(at))

        return self.stored(total, 0, int(total.shape[0]), combined)

    def shared(self, task: tirx.Var, tasks: int, body: tirx.Stmt) -> tirx.For:
        """Loop over tasks, which lanes share if they are long."""
        steps = math.prod(self.sliding.extents) * self.sliding.taps
        return over_tasks(task, tasks, body, steps)

    def all_written(
        self,
        totals: Sequence[Any],
        begin: int,
        lanes: int,
        place: Callable[[Value | int, tirx.Var], list[Value]],
    ) -> list[tirx.Stmt]:
        """Statements that make results of several vectors of sums, of so many from one on.

        Places are given by the number of the vector and the lane.
        """
        if not calls_dear(self.sliding.write.value):
            return [
                self.written(each, begin, lanes, partial(place, number))
                for number, each in enumerate(totals)
            ]
        # Sums themselves would leave their registers, if a loop chose among them.
        kept = lanes_in_registers(len(totals) * lanes, "kept")
        number = self.variable("number")

        def copied(at: int) -> tirx.Stmt:
            return self.stored(kept, at * lanes, lanes, lambda n: totals[at][n + begin])

        body = self.written(kept, number * lanes, lanes, partial(place, number))
        loop = tirx.For(number, 0, len(totals), tirx.ForKind.SERIAL, body)
        return [tirx.AllocBuffer(kept), *map(copied, range(len(totals))), loop]

    def written(
        self, total: Any, first: Value | int, lanes: int, place: Callable[[tirx.Var], list[Value]]
    ) -> tirx.Stmt:
        """Statement that makes results of so many sums from the first on, at places by lane."""

        def one(lane: tirx.Var) -> tirx.Stmt:
            named = list(zip(self.sliding.named, place(lane), strict=True))
            sums = self.sliding.total
            return element_written(self.sliding.write, sums, total[lane + first], named)

        return self.vector(lanes, one)

    def taps_inside(self, axis: Axis, result: Value) -> tuple[Value, Value]:
        """First tap that reads data for an element of the result, and the one behind the last."""
        first, behind = self.number(0), self.number(axis.kernel)
        if axis.has_border:
            begin = result * axis.stride - axis.before
            first = tirx.max(first, tirx.floordiv(axis.dilation - 1 - begin, axis.dilation))
            end = tirx.floordiv(axis.extent - begin + axis.dilation - 1, axis.dilation)
            behind = tirx.max(first, tirx.min(behind, end))
        return first, behind

    def stored(
        self, buffer: Any, first: int, lanes: int, value: Callable[[tirx.Var], Value]
    ) -> tirx.Stmt:
        """Statement that stores a vector of values in a buffer."""
        return self.vector(lanes, lambda at: tirx.BufferStore(buffer, value(at), [at + first]))

    def vector(self, lanes: int, make: Callable[[tirx.Var], tirx.Stmt]) -> tirx.Stmt:
        """Loop over the lanes of a vector."""
        lane = self.variable("lane")
        return tirx.For(lane, 0, lanes, tirx.ForKind.VECTORIZED, make(lane))

    def variable(self, name: str) -> tirx.Var:
        """New variable of the type that the kernel's have."""
        return tirx.Var(name, self.sliding.results[-1].ty.dtype)

    def number(self, number: int) -> Value:
        """Number of the type that the kernel's variables have."""
        return tirx.const(number, self.sliding.results[-1].ty.dtype)


def lanes_in_registers(elements: int, name: str) -> Any:
    """Buffer that LLVM keeps in registers."""
    return tirx.decl_buffer((elements,), "float32", name, layout=None)
