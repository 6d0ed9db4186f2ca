"""Vectors of the data that a window along rows reads, one for each column of the window.

Elements beyond the ends of a row are masked. Every second element of a row comes from two whole
vectors, which columns of the window share.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.core.window_tiles import RowVector, RowVectors
from tvm_ios.relax.schedules.tiles import loads_of, substituted, uses
from tvm_ios.relax.schedules.windows.window_sums import (
    Places,
    Sliding,
    WindowSums,
    lanes_in_registers,
)

__all__ = ["RowLoads"]


@dataclass(frozen=True, slots=True)
class RowLoads:
    """Vectors of one row of the data, loaded when they are first asked for."""

    sliding: Sliding
    group: RowVectors
    begin: Value
    """First result of the group."""
    places: Places
    """Values of all variables of the window but those of the column and its tap."""
    steps: list[tirx.Stmt]
    """Statements that load, which come before those that read."""
    whole: dict[tuple[int, int], Any] = field(default_factory=dict)
    """Vectors of elements beside each other, by the place of the first and their number."""
    strided: dict[tuple[int, int], Any] = field(default_factory=dict)
    """Vectors shuffled from these, by offset of their results and distance of the first element."""

    def vector(self, vector: RowVector, tap: int) -> Any:
        """Buffer of the elements that one column of the window reads, one for each result."""
        axis = self.sliding.slides[self.sliding.results[-1]].axis
        distance = tap * axis.dilation
        if axis.stride == 1:
            return self._whole(axis.place(vector.offset, 0) + distance, vector.lanes)
        return self._strided(vector, axis.place(vector.offset, 0), distance, axis.stride)

    def _strided(self, vector: RowVector, first: int, distance: int, stride: int) -> Any:
        """Buffer of elements at a stride, so far from a place, shuffled from as few vectors as do.

        Those that taps farther right read are those of a tap before, but for the last ones.
        """
        if (vector.offset, distance) in self.strided:
            return self.strided[vector.offset, distance]
        lanes, span = vector.lanes, vector.lanes * stride
        far, near = divmod(distance, stride)
        # What lies nearest is whole, since others are made of it.
        wanted = [distance + n * stride for n in range(vector.results if far else lanes)]
        if wanted[-1] < span:
            parts = [self._whole(first + n * lanes, lanes) for n in range(stride)]
        elif wanted[-1] < span + lanes:
            parts = [self._strided(vector, first, near, stride), self._whole(first + span, lanes)]
            wanted = [at // stride if at < span else at - span + lanes for at in wanted]
        else:
            parts = [self._whole(first + far * stride + n * lanes, lanes) for n in range(stride)]
            wanted = [at - far * stride for at in wanted]
        chosen = [*wanted, *[0] * (lanes - len(wanted))]
        buffer, ramp = lanes_in_registers(lanes, "strided"), tirx.Ramp(0, 1, lanes)
        shuffled = tirx.Shuffle([tirx.BufferLoad(each, [ramp]) for each in parts], chosen)
        self.steps.extend([tirx.AllocBuffer(buffer), tirx.BufferStore(buffer, shuffled, [ramp])])
        self.strided[vector.offset, distance] = buffer
        return buffer

    def _whole(self, place: int, lanes: int) -> Any:
        """Buffer of elements beside each other, the first at a place from the group's first on."""
        if (place, lanes) not in self.whole:
            self.whole[place, lanes] = self._loaded(place, lanes)
        return self.whole[place, lanes]

    def _loaded(self, place: int, lanes: int) -> Any:
        column, sums = self.sliding.results[-1], WindowSums(self.sliding)
        axis = self.sliding.slides[column].axis
        begin = self.group.begin * axis.stride + place
        inside = [self.group.is_loaded(axis, begin + n) for n in range(lanes)]
        around = tirx.const(self.sliding.around, "float32")
        (load,) = (
            each
            for each in loads_of(self.sliding.data)
            if any(uses(index, column) for index in each.indices)
        )
        indices = [
            self.begin * axis.stride + place
            if uses(each, column)
            else substituted(each, self.places)
            for each in load.indices
        ]
        buffer = lanes_in_registers(lanes, "loaded")
        ramp = tirx.Ramp(0, 1, lanes)
        self.steps.extend(
            [
                tirx.AllocBuffer(buffer),
                tirx.BufferStore(buffer, _elements(load.source, indices, inside, around), [ramp]),
            ]
        )
        if load.same_as(self.sliding.data):
            return buffer
        made = lanes_in_registers(lanes, "data")

        def one(lane: tirx.Var) -> Value:
            def read(other: Any) -> Value:
                return buffer[lane] if other.same_as(load) else other

            value = tvm_ffi.structural_map(
                self.sliding.data, (tvm.ir.TensorLoad, read), order="post"
            )
            value = substituted(value, self.places)
            if all(inside):
                return value
            first, behind = inside.index(True), lanes - inside[::-1].index(True)
            return tirx.Select(tirx.And(lane >= first, lane < behind), value, around)

        self.steps.extend([tirx.AllocBuffer(made), sums.stored(made, 0, lanes, one)])
        return made


def _elements(source: Any, indices: list[Value], inside: list[bool], around: Value) -> Value:
    """Elements beside each other from a place on; another number where there are none."""
    lanes = len(inside)
    if all(inside):
        *others, last = indices
        return tirx.BufferLoad(source, [*others, tirx.Ramp(last, 1, lanes)])
    numbers = tirx.Broadcast(around, lanes)
    if not any(inside):
        return numbers
    mask = tirx.Shuffle([tirx.const(each, "bool") for each in inside], list(range(lanes)))
    pointer = tirx.address_of(tirx.BufferLoad(source, indices))
    name = "llvm.masked.load"
    return tirx.call_llvm_pure_intrin(f"float32x{lanes}", name, pointer, mask, numbers)
