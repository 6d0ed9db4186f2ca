"""A fused function of attention as one kernel, in TVM's calling convention."""

from __future__ import annotations

import tvm
from tvm import relay, tir
from tvm.target.x86 import get_simd_32bit_lanes

from tvm_ios.relay.attention.emission import Emitter
from tvm_ios.relay.attention.reader import read_attention
from tvm_ios.relay.row_kernels.calling_convention import lowered_kernel
from tvm_ios.relay.row_kernels.values import UnsuitableError

__all__ = ["attention_kernel", "has_attention_kernel"]


def attention_kernel(function: relay.Function, target: tvm.target.Target) -> tir.PrimFunc | None:
    """Lowered kernel of a fused, typed function; None where it is no attention.

    Only for CPUs, and where bits may change: sums are added up in another order than TVM's
    schedules do. Uses the PassContext in force. What it calls is left for
    :func:`~tvm_ios.kernels.vector_math.with_arithmetic`.
    """
    try:
        attention = read_attention(function)
    except UnsuitableError:
        return None
    with target:
        statement = Emitter(attention, int(get_simd_32bit_lanes())).statement()
    return lowered_kernel("attention", attention.parameters, statement, target)


def has_attention_kernel(function: relay.Function) -> bool:
    """True if :func:`attention_kernel` computes a function; takes no time to lower it."""
    try:
        read_attention(function)
    except UnsuitableError:
        return False
    return True
