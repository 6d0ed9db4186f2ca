"""Kernels of one fused function, run beside NumPy's answer in double precision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tvm
from tvm import relay

from tests.relay_modules import typed
from tvm_ios.host import host_target
from tvm_ios.kernels.lowered import LoweredKernel
from tvm_ios.relay.context import tvm_pipeline
from tvm_ios.relay.kernels import lower_kernels

TARGET = tvm.target.Target(host_target())
QUICK = tvm.target.Target(f"{host_target()} -opt-level=0")
"""The same processor; LLVM need not optimise what runs once."""


def lower(result: relay.Expr, target: tvm.target.Target = TARGET) -> LoweredKernel:
    """The one kernel that computes an expression of its free variables."""
    with tvm_pipeline():
        fused = relay.transform.FuseOps(2)(typed(result))
        call = relay.transform.InferType()(fused)["main"].body
        ((_, kernel),) = lower_kernels([call], target)
    return kernel


def run(kernel: LoweredKernel, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Result of a kernel with one output."""
    buffers = [kernel.function.buffer_map[each] for each in kernel.function.params]
    shape = [int(extent) for extent in buffers[-1].shape]
    result = tvm.nd.array(np.full(shape, 7, buffers[-1].dtype))
    with tvm_pipeline():
        library = tvm.build(kernel.module(), target=QUICK)
    library[kernel.symbol](*map(tvm.nd.array, arrays), result)
    return np.asarray(result.numpy())


def is_vectorised(kernel: LoweredKernel) -> bool:
    """True if a kernel reads whole vectors of its first input, one element beside the other."""
    found: list[object] = []
    tvm.tir.stmt_functor.post_order_visit(kernel.function.body, found.append)
    first = kernel.function.buffer_map[kernel.function.params[0]].data
    loads = [each for each in found if isinstance(each, tvm.tir.BufferLoad)]
    ramps = [
        load.indices[0]
        for load in loads
        if load.buffer.data.same_as(first) and isinstance(load.indices[0], tvm.tir.Ramp)
    ]
    return any(int(ramp.stride) == 1 for ramp in ramps)
