"""Kernels that only move whole pieces of memory, recognised by what they compute."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm
from tvm import te, topi

from tvm_ios.plan.data_type import dtype_bytes
from tvm_ios.plan.kernel_graph import GraphTensor
from tvm_ios.plan.placement import ConcatView, SliceView
from tvm_ios.relax.kernel_text import kernel_text

__all__ = ["concatenation", "is_reshape", "view_of"]


def is_reshape(
    function: tvm.tirx.PrimFunc, inputs: Sequence[GraphTensor], outputs: Sequence[GraphTensor]
) -> bool:
    """True if the only output has the bytes of the only input, in their order."""
    if len(inputs) != 1 or len(outputs) != 1:
        return False
    # TVM takes the first rows of a tensor for a reshape of it.
    is_whole = math.prod(inputs[0].shape) == math.prod(outputs[0].shape)
    return is_whole and bool(tvm.relax.analysis.has_reshape_pattern(function))


def view_of(
    function: tvm.tirx.PrimFunc, inputs: Sequence[GraphTensor], output: GraphTensor
) -> SliceView | ConcatView | None:
    """View of a kernel that writes its inputs one after another, or copies one piece of its input.

    None for any other kernel.
    """
    if len(inputs) == 1:
        return _slice_view(function, inputs[0], output)
    if len(inputs) < 2 or not _may_join(inputs, output):
        return None
    rank = len(output.shape)
    text = kernel_text(function)
    for axis in range(rank):
        # Only what lies before the axis decides whether pieces stay whole.
        if math.prod(output.shape[:axis]) == 1 and text == concatenation(inputs, axis):
            return ConcatView(_offsets(inputs))
    return None


def _slice_view(
    function: tvm.tirx.PrimFunc, whole: GraphTensor, piece: GraphTensor
) -> SliceView | None:
    """View of a kernel that copies a range along one axis, before which every extent is 1."""
    if (len(whole.shape), whole.dtype) != (len(piece.shape), piece.dtype):
        return None
    shorter = [
        axis
        for axis, (full, part) in enumerate(zip(whole.shape, piece.shape, strict=True))
        if part != full
    ]
    if len(shorter) != 1 or math.prod(piece.shape[: shorter[0]]) != 1:
        return None
    (axis,) = shorter
    begin = _read_from(function, axis)
    if begin is None or kernel_text(function) != _slice(whole, axis, begin, piece.shape[axis]):
        return None
    row = math.prod(whole.shape[axis + 1 :]) * dtype_bytes(whole.dtype)
    return SliceView(begin * row)


def _read_from(function: tvm.tirx.PrimFunc, axis: int) -> int | None:
    """Index along an axis of the input from which a kernel may copy; None if it does not copy."""
    schedule = tvm.s_tir.Schedule(function)
    blocks = schedule.get_child_blocks(schedule.get_sblock("root"))
    stored = schedule.get(blocks[0]).body if len(blocks) == 1 else None
    loaded = getattr(stored, "value", None)
    if not isinstance(loaded, tvm.ir.expr.TensorLoad) or len(loaded.indices) <= axis:
        return None
    moved = getattr(loaded.indices[axis], "b", None)  # of a sum, such as v + 3
    return int(moved.value) if isinstance(moved, tvm.tirx.IntImm) else 0


def _slice(whole: GraphTensor, axis: int, begin: int, extent: int) -> str:
    """Text of TVM's kernel that copies a range along an axis."""
    source = _placeholder(whole)
    copied = topi.strided_slice(source, [begin], [begin + extent], [1], [axis])
    return kernel_text(te.create_prim_func([source, copied]))


def _placeholder(tensor: GraphTensor) -> te.Tensor:
    extents = [tvm.tirx.IntImm("int64", extent) for extent in tensor.shape]
    return te.placeholder(extents, tensor.dtype)


def _may_join(inputs: Sequence[GraphTensor], output: GraphTensor) -> bool:
    """True if shapes and types allow a concatenation."""
    sizes = [math.prod(tensor.shape) for tensor in inputs]
    return (
        all(tensor.dtype == output.dtype for tensor in inputs)
        and all(len(tensor.shape) == len(output.shape) for tensor in inputs)
        and sum(sizes) == math.prod(output.shape)
        and min(sizes) > 0
    )


def concatenation(inputs: Sequence[GraphTensor], axis: int) -> str:
    """Text of TVM's kernel that concatenates such tensors; empty where they do not fit."""
    others = {tensor.shape[:axis] + tensor.shape[axis + 1 :] for tensor in inputs}
    if len(others) > 1:
        return ""
    pieces = [_placeholder(tensor) for tensor in inputs]
    return kernel_text(te.create_prim_func([*pieces, topi.concatenate(pieces, axis)]))


def _offsets(inputs: Sequence[GraphTensor]) -> tuple[int, ...]:
    """Byte at which each input begins in all of them one after another."""
    ends = [0]
    for tensor in inputs:
        ends.append(ends[-1] + math.prod(tensor.shape) * dtype_bytes(tensor.dtype))
    return tuple(ends[:-1])
