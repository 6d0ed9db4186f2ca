"""Loops of kernels on GPUs: those of TVM's own pipeline for CUDA.

Its rules (DLight) give kernels blocks of many threads. They tune nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir import dlight

from tvm_ios.errors import ModelError

__all__ = ["in_threads", "with_default_loops"]


def with_default_loops(
    kernels: Mapping[str, tirx.PrimFunc], target: tvm.target.Target
) -> dict[str, tirx.PrimFunc]:
    """Kernels by name with loops for a GPU; scheduled ones as they are.

    Raises
    ------
    ModelError
        If no rule has loops for a kernel: TVM would compile it for the processor, which cannot read
        the memory of a GPU.
    """
    rules = dlight.gpu
    schedule = dlight.ApplyDefaultSchedule(
        rules.Matmul(), rules.GEMV(), rules.Reduction(), rules.GeneralReduction(), rules.Fallback()
    )
    with target:
        made = schedule(tvm.IRModule(dict(kernels)))
    for name in kernels:
        if not in_threads(made[name]):
            raise ModelError(
                f"kernel {name!r} cannot run on a GPU: none of TVM's rules schedules it; compute "
                "it in another way, or give a target of kind llvm"
            )
    return {name: made[name] for name in kernels}


def in_threads(kernel: tirx.PrimFunc) -> bool:
    """True if threads of a GPU do all that a kernel writes."""
    outside = tvm_ffi.structural_walk(
        kernel.body,
        (
            (tirx.For, lambda loop: _beyond(loop.kind == tirx.ForKind.THREAD_BINDING)),
            (tirx.AttrStmt, lambda stated: _beyond(stated.attr_key == "thread_extent")),
            (tirx.BufferStore, tvm_ffi.VisitInterrupt),
        ),
        order="pre",
    )
    return outside is None


def _beyond(is_bound: bool) -> tvm_ffi.WalkResult:
    """Further way of a walk from a loop: not into one whose iterations are threads."""
    return tvm_ffi.WalkResult.SKIP if is_bound else tvm_ffi.WalkResult.ADVANCE
