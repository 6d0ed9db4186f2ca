"""Kernels as loops over flat arrays: strides of their axes, and what they turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.tiles import loads_of, uses

__all__ = ["Access", "Axis", "Turn", "turn_of", "turns"]


@dataclass(frozen=True, slots=True)
class Axis:
    """Variables of a block along which elements lie together in all arrays."""

    variable: tirx.Var
    """The innermost one of them."""
    extent: int


@dataclass(frozen=True, slots=True)
class Access:
    """Element of an array that a block reads or writes."""

    array: Any
    begin: int
    """Place of the first one in the flat array."""
    strides: Mapping[tirx.Var, int]
    """Elements from one to the next along each variable of the block."""

    def indices(self, places: Mapping[tirx.Var, Value]) -> list[Value]:
        """Indices at places of variables; the last one goes beyond its axis, the others are 0."""
        flat: Value = tirx.const(self.begin, "int64")
        for variable, place in places.items():
            flat = flat + place * self.strides[variable]
        return [*(tirx.const(0, "int64") for _ in self.array.ty.shape[1:]), flat]


def _access_of(node: Any, variables: Sequence[tirx.Var]) -> Access | None:
    """Access of a load or a store; None if the steps along a variable differ."""
    array = node.buffer if isinstance(node, tirx.BufferStore) else node.source
    first, *others = [*node.indices] or [tirx.const(0, "int64")]
    flat = first
    for index, extent in zip(others, array.ty.shape[1:], strict=True):
        flat = flat * extent + index
    found = detect_linear_equation(Analyzer().simplify(flat), list(variables))
    if not found or not all(isinstance(each, tirx.IntImm) for each in found):
        return None
    *strides, begin = map(int, found)
    return Access(array, begin, dict(zip(variables, strides, strict=True)))


def _merged_axes(block: s_tir.SBlock, accesses: Sequence[Access]) -> list[Axis]:
    """Axes of a block that are longer than 1, the innermost last."""
    axes: list[Axis] = []
    for each in reversed(block.iter_vars):
        variable, extent = each.var, int(each.dom.extent)
        if axes and all(
            access.strides[variable] == access.strides[axes[0].variable] * axes[0].extent
            for access in accesses
        ):
            axes[0] = Axis(axes[0].variable, axes[0].extent * extent)
        elif extent > 1:
            axes.insert(0, Axis(variable, extent))
    return axes


@dataclass(frozen=True, slots=True)
class Turn:
    """Block that writes along rows, and reads some arrays along columns."""

    store: tirx.BufferStore
    loads: Sequence[tvm.ir.TensorLoad]
    written: Access
    read: Sequence[Access]
    """Element of each load."""
    row: Axis
    column: Axis
    others: Sequence[Axis]

    def value_of(self, elements: Sequence[Value]) -> Value:
        """Value that the block writes, with other elements in the place of those that it loads."""
        return _with_elements(self.store.value, self.loads, elements)


def turn_of(block: s_tir.SBlock) -> Turn | None:
    """Transposition that a block does with float32, and more with it; None of other blocks."""
    store, variables = block.body, [each.var for each in block.iter_vars]
    if not isinstance(store, tirx.BufferStore):
        return None
    loads = loads_of(store.value)
    found = [_access_of(each, variables) for each in (store, *loads)]
    accesses = [each for each in found if each is not None]
    if len(accesses) < len(found):
        return None  # as where an index is loaded
    zeros = [tirx.const(0, load.ty.dtype) for load in loads]
    outside = _with_elements(store.value, loads, zeros)
    if any(uses(outside, each) for each in variables):
        return None
    written, *read = accesses
    axes = _merged_axes(block, accesses)
    rows = [axis for axis in axes if written.strides[axis.variable] == 1]
    turning = [each for each in read if rows and turns(each.strides[rows[0].variable])]
    columns = [
        axis
        for axis in axes
        if turning and all(each.strides[axis.variable] == 1 for each in turning)
    ]
    if not columns or any(str(each.array.ty.dtype) != "float32" for each in turning):
        return None
    others = [axis for axis in axes if axis not in (rows[0], columns[0])]
    return Turn(store, loads, written, read, rows[0], columns[0], others)


def turns(stride: int) -> bool:
    """True for an array of which elements of a written row are apart."""
    return stride not in (0, 1)


def _with_elements(
    value: Value, loads: Sequence[tvm.ir.TensorLoad], elements: Sequence[Value]
) -> Value:
    """Value with others in the place of what it loads."""
    pairs = list(zip(loads, elements, strict=True))

    def element(load: tvm.ir.TensorLoad) -> Value:
        return next(new for old, new in pairs if tvm_ffi.structural_equal(load, old))

    return tvm_ffi.structural_map(value, (tvm.ir.TensorLoad, element), order="post")
