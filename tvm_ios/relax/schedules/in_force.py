"""The loops that kernels of a prepared module get.

What a kernel computes is hard to see in its loops, so that is noted before: a scheduled kernel
carries ``tvm_ios_workload`` (as :class:`~tvm_ios.core.graph.Operator` has it, the same for every
processor) and ``tvm_ios_flops``. Kernels that need no launch stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import s_tir

from tvm_ios.relax.extract import FLOPS, WORKLOAD, Extraction, kernel_of
from tvm_ios.relax.schedules.arithmetic import with_arithmetic
from tvm_ios.relax.schedules.columns import columns, with_columns_in_vectors
from tvm_ios.relax.schedules.gathered import with_gathered_vectors
from tvm_ios.relax.schedules.in_place import with_rows_in_place
from tvm_ios.relax.schedules.injective import injective
from tvm_ios.relax.schedules.joined import joined
from tvm_ios.relax.schedules.packed import packed
from tvm_ios.relax.schedules.resized_images.resized import with_known_places
from tvm_ios.relax.schedules.resized_images.shared_rows import with_shared_rows
from tvm_ios.relax.schedules.rounding import with_rounding
from tvm_ios.relax.schedules.rows import rows
from tvm_ios.relax.schedules.strided import with_strided_vectors
from tvm_ios.relax.schedules.turned import turned
from tvm_ios.relax.schedules.windows.sliding import sliding
from tvm_ios.relax.schedules.windows.window import window
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["scheduled", "with_own_loops"]

RULES: tuple[Callable[[s_tir.Schedule, int], bool], ...] = (injective, columns, window, rows)
"""Rules in the order they are tried; each says whether it has scheduled a kernel."""
IS_SCHEDULED = "tirx.is_scheduled"
"""Attribute by which TVM, too, knows kernels that have their loops."""


def with_own_loops(extraction: Extraction, target: tvm.target.Target) -> tvm.IRModule:
    """Copy of a prepared module in which kernels have loops of ours, where a rule has any.

    We have none for GPUs: those of TVM come when kernels are built.
    """
    module = extraction.module.clone()
    if is_gpu_target(target):
        return module
    for call, operator in zip(extraction.line.calls, extraction.graph.operators, strict=True):
        function = kernel_of(module, call)
        if function is None or operator.view or IS_SCHEDULED in function.attrs:
            continue
        made = scheduled(function, target)
        if made is not None:
            noted = made.with_attrs({WORKLOAD: operator.workload, FLOPS: operator.flops})
            module.update_func(call.call.args[0], noted)
    return module


def scheduled(function: tvm.tirx.PrimFunc, target: tvm.target.Target) -> tvm.tirx.PrimFunc | None:
    """A kernel with loops of ours; None where no rule has any."""
    lanes = _vector_lanes(target)
    own = (sliding, joined, turned, with_shared_rows, _by_rules)
    made = packed(function, target) or next(
        (made for rule in own if (made := rule(function, lanes)) is not None), None
    )
    if made is None:
        return None
    made = with_rounding(with_arithmetic(made), target) if bits_may_change() else made
    return made.with_attr(IS_SCHEDULED, True)


def _by_rules(function: tvm.tirx.PrimFunc, lanes: int) -> tvm.tirx.PrimFunc | None:
    for rule in RULES:
        schedule = s_tir.Schedule(function)
        try:
            if rule(schedule, lanes):
                made = schedule.mod["main"].without_attr("global_symbol")
                made = with_strided_vectors(with_rows_in_place(made))
                made = with_columns_in_vectors(with_known_places(made), lanes)
                return with_gathered_vectors(made, lanes)
        except s_tir.ScheduleError:
            continue  # TVM proves less than what is true of some kernels
    return None


def _vector_lanes(target: tvm.target.Target) -> int:
    """Elements of float32 in a vector register; TVM's llvm_get_vector_width is 512 for any x86."""
    codegen = tvm.target.codegen
    if codegen.target_has_features("avx512f", target):
        return 16
    return 8 if codegen.target_has_features("avx2", target) else 4
