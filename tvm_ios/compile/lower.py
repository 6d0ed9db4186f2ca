"""Lowering of schedules onto compiled kernels: from a schedule to a compiled model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import tvm

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.chosen_calls import with_chosen_calls
from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.model_kernels import ModelKernels
from tvm_ios.compile.plan_of import plan_of, widest_stage
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.verify import verify_schedule
from tvm_ios.devices.targets import require_known_target
from tvm_ios.host import cached_libinfo, host_target
from tvm_ios.plan.placement import Placement
from tvm_ios.plan.schedule_places import placements_for
from tvm_ios.relay import build, read_schedule, rewrite_extraction
from tvm_ios.relay.inputs import check_parameters, resolve_target
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
    placements = with_chosen_calls(kernels.staged, placements, schedule, built.libraries)
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
    placements = with_chosen_calls(staged, staged.placements, schedule, libraries)
    return CompiledModel(
        partition=lambda: module,
        graph=staged.extraction.graph,
        schedule=schedule,
        plan=plan_of(staged, placements, lanes or widest_stage(schedule)),
        kernels=ModelKernels(staged),
    )
