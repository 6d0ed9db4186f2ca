"""A fused function that begins with a depthwise or grouped convolution as one kernel."""

from __future__ import annotations

import tvm
from tvm import relay, tir

from tvm_ios.relay.dataflow import all_calls
from tvm_ios.relay.grouped.convolution import OPERATORS, geometry_of
from tvm_ios.relay.grouped.emission import Finish, emit
from tvm_ios.relay.grouped.following import Followed, is_dear
from tvm_ios.relay.grouped.geometry import Geometry
from tvm_ios.relay.row_kernels.calling_convention import lowered_kernel
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
    followed = Followed.of(function, call, target)
    data, weight = (followed.rows[argument.name_hint] for argument in call.args)
    finish = Finish(write=followed.write, is_long=is_dear(followed.element))
    return list(followed.buffers), emit(geometry, data, weight, finish)
