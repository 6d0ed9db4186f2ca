"""Kernels that only move whole pieces of memory, recognised by what they compute."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm
from tvm import te, topi

from tvm_ios.plan.data_type import dtype_bytes
from tvm_ios.plan.kernel_graph import GraphTensor
from tvm_ios.plan.placement import ConcatView
from tvm_ios.relax.kernel_text import kernel_text

__all__ = ["concat_view", "is_reshape"]


def is_reshape(function: tvm.tirx.PrimFunc) -> bool:
    """True if the only output has the bytes of the only input, in their order."""
    return len(function.params) == 2 and bool(tvm.relax.analysis.has_reshape_pattern(function))


def concat_view(
    function: tvm.tirx.PrimFunc, inputs: Sequence[GraphTensor], output: GraphTensor
) -> ConcatView | None:
    """View of a kernel that writes its inputs one after another; None for any other kernel."""
    if len(inputs) < 2 or not _may_join(inputs, output):
        return None
    rank = len(output.shape)
    text = kernel_text(function)
    for axis in range(rank):
        # Only what lies before the axis decides whether pieces stay whole.
        if math.prod(output.shape[:axis]) == 1 and text == _concatenation(inputs, axis):
            return ConcatView(_offsets(inputs))
    return None


def _may_join(inputs: Sequence[GraphTensor], output: GraphTensor) -> bool:
    """True if shapes and types allow a concatenation."""
    sizes = [math.prod(tensor.shape) for tensor in inputs]
    return (
        all(tensor.dtype == output.dtype for tensor in inputs)
        and all(len(tensor.shape) == len(output.shape) for tensor in inputs)
        and sum(sizes) == math.prod(output.shape)
        and min(sizes) > 0
    )


def _concatenation(inputs: Sequence[GraphTensor], axis: int) -> str:
    """Text of TVM's kernel that concatenates such tensors; empty where they do not fit."""
    others = {tensor.shape[:axis] + tensor.shape[axis + 1 :] for tensor in inputs}
    if len(others) > 1:
        return ""
    pieces = [
        te.placeholder([tvm.tirx.IntImm("int64", extent) for extent in tensor.shape], tensor.dtype)
        for tensor in inputs
    ]
    return kernel_text(te.create_prim_func([*pieces, topi.concatenate(pieces, axis)]))


def _offsets(inputs: Sequence[GraphTensor]) -> tuple[int, ...]:
    """Byte at which each input begins in all of them one after another."""
    ends = [0]
    for tensor in inputs:
        ends.append(ends[-1] + math.prod(tensor.shape) * dtype_bytes(tensor.dtype))
    return tuple(ends[:-1])
