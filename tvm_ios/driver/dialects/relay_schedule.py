"""Compilation of a Relay model with a known schedule, without search or measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tvm

from tvm_ios.compile.lower import lower_partitioned, lower_schedule
from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.plan_of import widest_stage
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.verify import verify_schedule
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.devices.targets import lanes_for_target
from tvm_ios.driver.options import TuneOptions
from tvm_ios.driver.taken_rest import taken_rest
from tvm_ios.errors import ModelError, OptionError, ScheduleError
from tvm_ios.host import host_target
from tvm_ios.profile.decisions.known_forms import build_for_schedule
from tvm_ios.relay import is_partitioned, read_schedule
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.prepare import converted_model
from tvm_ios.runtime.base.module_attributes import parts_of
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.tuning.records.record_lookup import records_around

__all__ = ["compile_model"]


def compile_model(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    schedule: InterOpSchedule | None,
    lanes: int | None,
    options: TuneOptions,
) -> CompiledModel:
    """Relay model with the kernels of a known schedule, as ``compile_schedule`` documents it."""
    resolved = None if target is None else resolve_target(target)
    build = options.build
    choice = LibraryChoice(target=resolved, names=build.named_libraries, tf32=build.tf32)
    chosen_lanes = lanes_for_target(lanes, resolved)
    if not isinstance(mod, tvm.IRModule):
        raise ModelError(f"mod is a {type(mod).__name__}; give a Relay module (tvm.IRModule)")
    if not isinstance(schedule, InterOpSchedule | None):
        raise OptionError(
            f"schedule is a {type(schedule).__name__}; give an InterOpSchedule, such as "
            "InterOpSchedule.from_json(text)"
        )
    known = read_schedule(mod) if is_partitioned(mod) else schedule
    build.require_exact(known)
    libraries = choice.for_schedule(known)
    rest, parts = taken_rest(mod, options), parts_of(mod)
    conversion = options.conversion
    if is_partitioned(mod):
        if conversion.changes:
            raise OptionError(
                f"the module is partitioned already, so {conversion.as_text()} comes too late; "
                "give that to PrepareModule"
            )
        if schedule is not None:
            raise OptionError(
                "the module is partitioned already, so it has a schedule; "
                "pass either the original module or no schedule"
            )
        model = lower_partitioned(mod, params, target, lanes=chosen_lanes, libraries=libraries)
        return replace(model.of_network(rest, ()), records=records_around(model.kernels.staged))
    if conversion.changes:
        target = host_target() if target is None else target
        mod, params = converted_model(mod, params, target, conversion)
    built = replace(build_for_schedule(mod, params, target, schedule), libraries=libraries)
    chosen = schedule if schedule is not None else sequential_schedule(built.graph)
    try:
        verify_schedule(chosen, built.graph)
    except ScheduleError as error:
        if chosen.graph_fingerprint == built.graph.fingerprint():
            raise
        raise ScheduleError(
            f"{error}, or compile with the layout and types it was found with; this is "
            f"{conversion.as_text()}"
        ) from error
    model = lower_schedule(built, chosen, lanes=chosen_lanes or widest_stage(chosen))
    model = model.of_network(rest, parts)
    return replace(model, records=records_around(model.kernels.staged))
