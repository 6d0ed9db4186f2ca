"""Kernels as loops over flat arrays: how far a step along an axis goes in each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import s_tir, tirx
from tvm.sym import Analyzer, detect_linear_equation
from tvm.tirx import Expr as Value

__all__ = ["Access", "Axis", "access_of", "merged_axes"]


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


def access_of(node: Any, variables: Sequence[tirx.Var]) -> Access | None:
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


def merged_axes(block: s_tir.SBlock, accesses: Sequence[Access]) -> list[Axis]:
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
