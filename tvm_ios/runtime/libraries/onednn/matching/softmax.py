"""Recognises softmax along the last axis, which oneDNN computes. No TVM."""

from __future__ import annotations

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall
from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive
from tvm_ios.runtime.libraries.onednn.matching.attributes import plain

__all__ = ["read_softmax"]


def read_softmax(function: FusedFunction, first: PrimitiveCall) -> OnednnCall | None:
    """The call that computes a softmax, without the steps after it; None for other operators."""
    shape = function.parameters[first.operands[0]].shape
    if first.operator != "nn.softmax" or len(shape) == 1:
        return None
    (axis,) = first.wholes("axis")
    if axis % len(shape) != len(shape) - 1:
        return None
    return OnednnCall(
        primitive=Primitive.SOFTMAX,
        data=plain(shape, first.operands[0]),
        weight=None,
        bias=None,
        result=plain(first.result.shape, None),
    )
