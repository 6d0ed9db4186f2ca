"""A fused function as one kernel that computes row by row, in TVM's calling convention."""

from __future__ import annotations

import tvm
from tvm import relay, tir

from tvm_ios.relay.row_kernels.calling_convention import lowered_kernel
from tvm_ios.relay.row_kernels.emission import Emitter
from tvm_ios.relay.row_kernels.few_rows import SplitEmitter, parts_of_rows
from tvm_ios.relay.row_kernels.merging import with_long_axes
from tvm_ios.relay.row_kernels.reader import read_computation
from tvm_ios.relay.row_kernels.values import Computation, UnsuitableError

__all__ = ["has_row_kernel", "row_kernel"]


def row_kernel(function: relay.Function, target: tvm.target.Target) -> tir.PrimFunc | None:
    """Lowered kernel of a fused, typed function; None where it cannot be computed row by row.

    The function may hold element-wise operators, reductions along the same axes of one tensor, and
    changes of shape between them. Sums are added up in another order than TVM's schedules do, so
    results differ in their last bits. Uses the PassContext in force. What it calls is left for
    :func:`~tvm_ios.kernels.vector_math.with_arithmetic`.
    """
    computation = _computation(function, target)
    if computation is None:
        return None
    parts = parts_of_rows(computation)
    emitter = Emitter(computation) if parts == 1 else SplitEmitter(computation, parts)
    return lowered_kernel("row_kernel", computation.parameters, emitter.statement(), target)


def has_row_kernel(function: relay.Function, target: tvm.target.Target) -> bool:
    """True if :func:`row_kernel` computes a function; takes no time to lower it."""
    return _computation(function, target) is not None


def _computation(function: relay.Function, target: tvm.target.Target) -> Computation | None:
    try:
        with target:
            return with_long_axes(read_computation(function, target))
    except UnsuitableError:
        return None
