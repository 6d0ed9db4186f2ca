"""Loops of kernels on GPUs: those of TVM's own pipeline for CUDA.

Its rules (DLight) give kernels blocks of many threads. They tune nothing.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir import dlight

from tvm_ios.errors import ModelError

__all__ = ["in_threads", "with_default_loops"]


def with_default_loops(module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Copy of a module whose kernels have loops for a GPU; scheduled ones are as they were.

    Raises
    ------
    ModelError
        If no rule has loops for a kernel: TVM would compile it for the processor, which cannot read
        the memory of a GPU.
    """
    made = module.clone()
    for variable, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc) and not in_threads(function):
            scheduled = _scheduled(function, target)
            if scheduled is None:
                raise ModelError(
                    f"kernel {variable.name_hint!r} cannot run on a GPU: none of TVM's rules "
                    "schedules it; compute it in another way, or give a target of kind llvm"
                )
            made.update_func(variable, scheduled)
    return made


def _scheduled(kernel: tirx.PrimFunc, target: tvm.target.Target) -> tirx.PrimFunc | None:
    """A kernel with loops for a GPU; None where no rule has any."""
    rules = dlight.gpu
    apply = dlight.ApplyDefaultSchedule(
        rules.Matmul(), rules.GEMV(), rules.Reduction(), rules.GeneralReduction(), rules.Fallback()
    )
    try:
        with target:
            made = apply(tvm.IRModule({"kernel": kernel}))["kernel"]
    except ValueError:  # the rules know nothing but blocks
        return None
    return made if in_threads(made) else None


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
