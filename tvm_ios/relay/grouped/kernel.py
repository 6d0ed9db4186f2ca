"""A fused function that begins with a depthwise or grouped convolution as one kernel."""

from __future__ import annotations

import math

import tvm
from tvm import relay, te, tir

from tvm_ios.kernels.vector_math import preparing_lowering
from tvm_ios.relay.dataflow import all_calls
from tvm_ios.relay.grouped.convolution import OPERATORS, geometry_of
from tvm_ios.relay.grouped.emission import Finish, emit
from tvm_ios.relay.grouped.following import element_after, is_dear
from tvm_ios.relay.grouped.geometry import Geometry
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
        kernel = _kernel(function, first, geometry, target)
    except UnsuitableError:
        return None
    with target, preparing_lowering():
        return tvm.lower(kernel, name="grouped_kernel")["grouped_kernel"]


def _kernel(
    function: relay.Function, call: relay.Call, geometry: Geometry, target: tvm.target.Target
) -> tir.PrimFunc:
    made = te.placeholder(call.checked_type.shape, "float32", "convolution")
    with target:
        inputs, result = tensors_of(function, target, {call: made})
    if shape_of(result) != shape_of(made) or result.dtype != "float32":
        raise UnsuitableError
    buffers = {name: _buffer(operation.output(0), name) for operation, name in inputs.items()}
    rows = {name: _as_row(buffer) for name, buffer in buffers.items()}
    written = _buffer(result, "result")
    row = _as_row(written)
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
    every = (*buffers.values(), written)
    parameters = [tir.Var(buffer.name, "handle") for buffer in every]
    handles = dict(zip(parameters, every, strict=True))
    return tir.PrimFunc(parameters, body, buffer_map=handles).with_attr("tir.noalias", True)


def _buffer(tensor: te.Tensor, name: str) -> tir.Buffer:
    return tir.decl_buffer(shape_of(tensor), tensor.dtype, name)


def _as_row(buffer: tir.Buffer) -> tir.Buffer:
    """Elements of a buffer, one behind the other."""
    length = math.prod(int(extent) for extent in buffer.shape)
    return tir.decl_buffer((length,), buffer.dtype, buffer.name, data=buffer.data)
