"""Axes of a row kernel joined where nothing tells them apart, so that loops become long."""

from __future__ import annotations

import math
from dataclasses import replace

import tvm
from tvm import tir

from tvm_ios.relay.row_kernels.values import Computation, UnsuitableError

__all__ = ["with_long_axes"]


def with_long_axes(computation: Computation) -> Computation:
    """Computation with neighbouring axes joined that every tensor holds one behind the other.

    Values are changed in place.

    Raises
    ------
    UnsuitableError
        If a value depends on its place other than by the elements it reads, or vectors of a whole
        tensor would have to be gathered.
    """
    strides = _strides(computation)
    kept: list[int] = []
    extents: list[int] = []
    gone: dict[tir.Var, tir.PrimExpr] = {}
    for number in reversed(range(len(computation.axes))):
        extent = computation.extents[number]
        if kept and _is_outer(computation, number, kept[0], extents[0], strides):
            gone[computation.axes[number]] = tir.const(0, "int32")
            extents[0] *= extent
        else:
            kept.insert(0, number)
            extents.insert(0, extent)
    for value in computation.values:
        value.expression = tir.stmt_functor.substitute(value.expression, gone)
    return replace(
        computation,
        axes=tuple(computation.axes[number] for number in kept),
        extents=tuple(extents),
        reduced=tuple(computation.reduced[number] for number in kept),
        place=tir.stmt_functor.substitute(computation.place, gone),
    )


def _is_outer(
    computation: Computation, outer: int, inner: int, extent: int, strides: list[list[int]]
) -> bool:
    """True if a step along one axis is as long as the whole of the other one, in all tensors."""
    alike = computation.reduced[outer] == computation.reduced[inner]
    return alike and all(steps[outer] == steps[inner] * extent for steps in strides)


def _strides(computation: Computation) -> list[list[int]]:
    """Strides along the axes of everything that is read or written."""
    places = [computation.place]
    whole: list[tir.PrimExpr] = []

    total = math.prod(computation.extents)

    def without_load(load: tir.BufferLoad) -> tir.PrimExpr:
        places.extend(load.indices)
        if int(load.buffer.shape[0]) == total:
            whole.extend(load.indices)
        return tir.const(0, load.dtype)

    for value in computation.values:
        rest = tir.stmt_functor.ir_transform(
            tir.Evaluate(value.expression), None, without_load, ["tir.BufferLoad"]
        )
        free = tir.analysis.undefined_vars(rest, [])
        if any(axis.same_as(variable) for axis in computation.axes for variable in free):
            raise UnsuitableError
    axes = list(computation.axes)
    if any(_steps(place, axes)[len(axes) - 1] != 1 for place in whole):
        raise UnsuitableError
    return [_steps(place, axes) for place in places]


def _steps(place: tir.PrimExpr, axes: list[tir.Var]) -> list[int]:
    return [int(part) for part in tvm.arith.detect_linear_equation(place, axes)]
