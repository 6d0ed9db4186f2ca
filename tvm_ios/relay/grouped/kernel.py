"""A fused function that begins with a depthwise or grouped convolution as one kernel."""

from __future__ import annotations

import tvm
from tvm import relay, te, tir

from tvm_ios.relay.dataflow import all_calls
from tvm_ios.relay.grouped.convolution import OPERATORS, geometry_of
from tvm_ios.relay.grouped.emission import Finish, emit
from tvm_ios.relay.grouped.following import element_after, is_dear
from tvm_ios.relay.grouped.geometry import Geometry
from tvm_ios.relay.row_kernels.calling_convention import as_row, lowered_kernel
from tvm_ios.relay.row_kernels.tensors import flat_index, shape_of, tensors_of
from tvm_ios.relay.row_kernels.values import UnsuitableError

__all__ = ["grouped_kernel"]


def grouped_kernel(function: relay.Function, target: tvm.target.Target) -> tir.PrimFunc | None:
    """Lowered kernel of a fused, typed function; None where these loops do not suit.

    The function is a grouped convolution of float32 in NHWC, or a depthwise one in blocks of
    channels, and element-wise operators after it. Products are added up in the order of the kernel,
    each without rounding, as LLVM does with TVM's loops, too. Uses the PassContext in force. What
    it calls is left for :func:`~tvm_ios.kernels.vector_math.with_arithmetic`.
    """
    calls = all_calls(function.body)
    first = next((call for call in calls if getattr(call.op, "name", "") in OPERATORS), None)
    if first is None or not set(first.args) <= set(function.params):
        return None
    geometry = geometry_of(first)
    if geometry is None:
        return None
    try:
        buffers, statement = _loops(function, first, geometry, target)
    except UnsuitableError:
        return None
    return lowered_kernel("grouped_kernel", buffers, statement, target)


def _loops(
    function: relay.Function, call: relay.Call, geometry: Geometry, target: tvm.target.Target
) -> tuple[list[tir.Buffer], tir.Stmt]:
    """Buffers of the arguments, the result last, and the statement that computes it."""
    made = te.placeholder(call.checked_type.shape, "float32", "convolution")
    with target:
        inputs, result = tensors_of(function, target, {call: made})
    if shape_of(result) != shape_of(made) or result.dtype != "float32":
        raise UnsuitableError
    buffers = {name: _buffer(operation.output(0), name) for operation, name in inputs.items()}
    rows = {name: as_row(buffer) for name, buffer in buffers.items()}
    written = _buffer(result, "result")
    row = as_row(written)
    total = tir.Var("total", "float32")
    axes = [tir.Var(f"axis{number}", "int32") for number in range(len(result.shape))]
    named = {operation: rows[name] for operation, name in inputs.items()}
    element = element_after(made, total, named, result, axes)

    def write(value: tir.PrimExpr, indices: list[tir.PrimExpr]) -> tir.Stmt:
        at = {total: value, **dict(zip(axes, indices, strict=True))}
        place = flat_index(shape_of(result), indices)
        return tir.BufferStore(row, tir.stmt_functor.substitute(element, at), [place])

    data, weight = (rows[argument.name_hint] for argument in call.args)
    body = emit(geometry, data, weight, Finish(write=write, is_long=is_dear(element)))
    return [*buffers.values(), written], body


def _buffer(tensor: te.Tensor, name: str) -> tir.Buffer:
    return tir.decl_buffer(shape_of(tensor), tensor.dtype, name)
