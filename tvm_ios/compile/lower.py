"""Lowering of schedules onto compiled kernels: from a schedule to a compiled model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import tvm

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.model_kernels import ModelKernels
from tvm_ios.compile.plan_of import plan_of, widest_stage
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.verify import verify_schedule
from tvm_ios.devices.targets import require_known_target
from tvm_ios.errors import ScheduleError
from tvm_ios.host import cached_libinfo, host_target
from tvm_ios.plan.placement import Placement
from tvm_ios.plan.schedule_places import placements_for
from tvm_ios.relay import StagedBuild, build, read_schedule, rewrite_extraction
from tvm_ios.relay.functions.fused_function import describe_calls
from tvm_ios.relay.inputs import check_parameters, resolve_target
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.runtime.libraries.known import find_library
from tvm_ios.runtime.libraries.placed_calls import with_library_calls
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.support.exact_bits import exact_bits

__all__ = ["lower_partitioned", "lower_schedule"]


def lower_schedule(built: BuiltModel, schedule: InterOpSchedule, *, lanes: int) -> CompiledModel:
    """Compiled model of a schedule on a built model's kernels; merge stages are compiled anew.

    So are absent kernels, where the schedule has TVM compute their operators.
    """
    verify_schedule(schedule, built.graph)
    schedule = replace(schedule, form=built.form, low=built.prepared.low)
    # Seconds for a large network, and a race only runs it: written when somebody asks for it.
    partition = cache(partial(rewrite_extraction, built.extraction, schedule))
    kernels = built.kernels
    placements: Sequence[Placement]
    if any(stage.is_merge for stage in schedule.stages):
        # A race may compile its contestants long after the call that asked for exact bits.
        with cached_libinfo(), exact_bits(kernels.staged.exact):
            kernels = ModelKernels(
                build(
                    partition(),
                    built.prepared.target,
                    built.prepared.params,
                    known=kernels.staged.lowered,
                    absent=kernels.staged.absent,
                )
            )
        placements = kernels.staged.placements
    else:
        placements = placements_for(built.extraction, schedule)
    placements = _with_calls(kernels.staged, placements, schedule, built.libraries)
    if not kernels.staged.can_run(placements):
        return lower_schedule(built.whole, schedule, lanes=lanes)
    return CompiledModel(
        partition=partition,
        graph=built.graph,
        schedule=schedule,
        plan=plan_of(kernels.staged, placements, lanes),
        kernels=kernels,
        notes=built.prepared.notes,
    )


def lower_partitioned(
    module: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    *,
    lanes: int | None,
    libraries: Sequence[OperatorLibrary] = (),
) -> CompiledModel:
    """Compiled model of a module that carries its schedule, as ``ScheduleOperators`` left it.

    Where ``lanes`` are omitted, as many as the widest stage has groups, or a list has lanes.
    """
    chosen = resolve_target(target if target is not None else host_target())
    require_known_target(chosen)
    arrays = check_parameters(module["main"], params)
    schedule = read_schedule(module)
    with cached_libinfo():
        staged = build(module, chosen, arrays)
    placements = _with_calls(staged, staged.placements, schedule, libraries)
    return CompiledModel(
        partition=lambda: module,
        graph=staged.extraction.graph,
        schedule=schedule,
        plan=plan_of(staged, placements, lanes or widest_stage(schedule)),
        kernels=ModelKernels(staged),
    )


def _with_calls(
    staged: StagedBuild,
    placements: Sequence[Placement],
    schedule: InterOpSchedule,
    libraries: Sequence[OperatorLibrary],
) -> Sequence[Placement]:
    """Placements with the calls of operator libraries that a schedule wants."""
    _require_libraries_of(staged.target, schedule)
    if not libraries:
        return placements
    chosen = None
    if schedule.libraries is not None:
        chosen = {
            row.library: {schedule.operator_names[index] for index in row.operators}
            for row in schedule.libraries
        }
    functions = describe_calls(staged.extraction.calls)
    return with_library_calls(placements, functions, staged.members, libraries, chosen)


def _require_libraries_of(target: tvm.target.Target, schedule: InterOpSchedule) -> None:
    """Refuse a schedule that uses an operator library for another kind of target."""
    for row in schedule.libraries or ():
        library = find_library(row.library)
        if not row.operators or (library is not None and library.target_kind == target.kind.name):
            continue
        title = row.library if library is None else library.name.title
        first = schedule.operator_names[row.operators[0]]
        because = "which this tvm-ios does not know" if library is None else _other_kind(target)
        raise ScheduleError(
            f"the schedule has {title} compute {len(row.operators)} operators, the first is "
            f"{first!r}, {because}"
        )


def _other_kind(target: tvm.target.Target) -> str:
    here, there = ("a GPU", "a CPU") if is_gpu_target(target) else ("a CPU", "a GPU")
    return (
        f"but target {str(target)!r} is {here}; compile for {there}, or search again for this "
        "target"
    )
