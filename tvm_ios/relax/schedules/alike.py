"""Vectors whose elements all have the same conditions, as in concatenations.

Goes behind the loops, for a marked loop over a vector. TVM computes conditional elements one by
one, and proves too late that a vector has no condition.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_ios.relax.schedules.tiles import ALIKE, COMPARISONS, only_store, substituted

__all__ = ["with_common_conditions"]


def with_common_conditions(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """Kernel whose marked loops have conditions that do not depend on their variable."""
    body = tvm_ffi.structural_map(function.body, (tirx.For, _changed), order="post")
    return function if body.same_as(function.body) else function.with_body(body)


def _changed(loop: tirx.For) -> tirx.Stmt:
    if ALIKE not in loop.annotations:
        return loop
    found, variable = only_store(loop), loop.loop_var
    if found is None:
        return tirx.For(variable, loop.min, loop.extent, loop.kind, loop.body)
    first = [(variable, tirx.const(0, variable.ty.dtype))]

    def common(condition: Any) -> Any:
        return substituted(condition, first)

    store = found[0]
    kinds = [(kind, common) for kind in COMPARISONS]
    value = tvm_ffi.structural_map(store.value, kinds, order="post")
    body = tirx.BufferStore(store.buffer, value, store.indices)
    return tirx.For(variable, loop.min, loop.extent, loop.kind, body)
