"""Lowering of schedules onto compiled kernels: from a schedule to a compiled model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import tvm

from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.compile.dialects.dialect import dialect_here
from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.model_kernels import ModelKernels
from tvm_ios.compile.plan_of import plan_of, widest_stage
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.verify import verify_schedule
from tvm_ios.errors import ScheduleError
from tvm_ios.plan.placed_kernels import PlacedKernels
from tvm_ios.plan.placement import Placement
from tvm_ios.plan.schedule_places import placements_for
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.runtime.libraries.known import find_library
from tvm_ios.runtime.libraries.placed_calls import with_library_calls
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.support.exact_bits import exact_bits

__all__ = ["lower_partitioned", "lower_schedule"]


def lower_schedule(built: BuiltModel, schedule: InterOpSchedule, *, lanes: int) -> CompiledModel:
    """Compiled model of a schedule on a built model's kernels; merge stages are compiled anew.

    So are absent kernels, where the schedule has TVM compute their operators.

    Raises
    ------
    ScheduleError
        If the schedule is for another graph, breaks a rule, or uses an operator library that does
        not compute for this target.
    """
    kernels, rewritten = built.kernels, dialect_here().rewrite_extraction
    verify_schedule(schedule, built.graph)
    schedule = replace(schedule, form=built.form, low=built.prepared.low)
    # Seconds for a large network, and a race only runs it: written when somebody asks for it.
    partition = cache(partial(rewritten, built.extraction, schedule, built.prepared.target))
    placements: Sequence[Placement]
    if any(stage.is_merge for stage in schedule.stages):
        kernels = _with_merged(built, partition())
        placements = kernels.staged.placements
    else:
        placements = placements_for(built.extraction, schedule)
    placements = _with_chosen_calls(kernels.staged, placements, schedule, built.libraries)
    if any(placements[number].call is None for number in kernels.staged.absent_nodes):
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
    dialect = dialect_here()
    built = build_prepared(dialect.partitioned(module, params, target))
    schedule, staged = dialect.read_schedule(module), built.kernels.staged
    placements = _with_chosen_calls(staged, staged.placements, schedule, libraries)
    return CompiledModel(
        partition=lambda: module,
        graph=built.graph,
        schedule=schedule,
        plan=plan_of(staged, placements, lanes or widest_stage(schedule)),
        kernels=built.kernels,
    )


def _with_merged(built: BuiltModel, partitioned: tvm.IRModule) -> ModelKernels[Any]:
    """Kernels of a partitioned module with merge stages, absent ones as in the build."""
    known = built.kernels.staged
    prepared = replace(built.prepared, module=partitioned)
    # A race may compile its contestants long after the call that asked for exact bits.
    with exact_bits(built.exact):
        return ModelKernels(dialect_here().build(prepared, like=known, absent=known.absent))


def _with_chosen_calls(
    staged: PlacedKernels,
    placements: Sequence[Placement],
    schedule: InterOpSchedule,
    libraries: Sequence[OperatorLibrary],
) -> Sequence[Placement]:
    """Placements with the calls of operator libraries that a schedule wants.

    Raises
    ------
    ScheduleError
        If the schedule uses an operator library for another kind of target, or an unknown one.
    """
    _require_libraries_of(staged.target, schedule)
    if not libraries:
        return placements
    chosen = None
    if schedule.libraries is not None:
        chosen = {
            row.library: {schedule.operator_names[index] for index in row.operators}
            for row in schedule.libraries
        }
    functions, members = staged.describe(), staged.members
    return with_library_calls(placements, functions, members, libraries, chosen)


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
