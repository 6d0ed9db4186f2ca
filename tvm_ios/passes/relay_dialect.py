"""Relay as the passes see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import tvm

from tvm_ios.compile.built_model import build_prepared
from tvm_ios.core.conversion import AS_IT_IS, Conversion
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database import open_database
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.devices.targets import local_device
from tvm_ios.passes.schedule_operators import ScheduleOperators, Scheduler
from tvm_ios.profile.find_schedules import find_schedules
from tvm_ios.profile.list_choice import list_from
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.profile.way_choice import settled_prices
from tvm_ios.relay.dataflow import has_main
from tvm_ios.relay.extract import is_prepared
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.obstacles import find_obstacles
from tvm_ios.relay.prepare import PreparedModule, prepare
from tvm_ios.relay.rewrite import rewrite
from tvm_ios.relay.stage_ir import is_partitioned
from tvm_ios.relay.transforms.channel_padding import pad_channels
from tvm_ios.search.baselines import sequential_schedule

__all__ = [
    "is_partitioned",
    "measured_schedule",
    "pad_unless_done",
    "prepare_unless_done",
    "resolve_target",
    "rewrite",
]


def prepare_unless_done(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    conversion: Conversion = AS_IT_IS,
) -> PreparedModule | None:
    """Module that is prepared; None for a module that is partitioned or has control flow."""
    if is_partitioned(mod):
        return None
    if is_prepared(mod):
        return PreparedModule(module=mod, params={}, target=resolve_target(target))
    if has_main(mod) and find_obstacles(mod):
        return None
    return prepare(mod, params, target, conversion=conversion)


def pad_unless_done(
    mod: tvm.IRModule, params: Mapping[str, Any] | None, target: Any
) -> tvm.IRModule:
    """Module whose output channels fill whole vectors; the same one if it is prepared."""
    if is_partitioned(mod) or is_prepared(mod) or (has_main(mod) and find_obstacles(mod)):
        return mod
    padded_mod, padded = pad_channels(mod, params, target)
    return padded_mod if padded or params else mod


def measured_schedule(options: ScheduleOperators, prepared: PreparedModule) -> InterOpSchedule:
    """Schedule by prices that are measured on this machine."""
    scheduler = options.chosen_scheduler()
    device = local_device(prepared.target)
    lanes, database = device.require_lanes(options.lanes), open_database(options.database)
    choice = LibraryChoice(target=prepared.target, names=() if options.exact else options.libraries)
    libraries = choice.installed()
    built = replace(build_prepared(prepared), libraries=libraries)
    with (
        device.open() as session,
        RelayStageRunner(built, lanes=lanes, session=session, database=database) as runner,
    ):
        kernels = MeasuredKernels(runner, database=database)
        prices = settled_prices(kernels)
        if scheduler is Scheduler.LIST:
            with kernels.resumable():
                in_order = sequential_schedule(prices.graph)
                return prices.annotate(list_from(prices, in_order, lanes=lanes))
        found = find_schedules(prices, {scheduler.value: options.limits()})
        return found.schedules[scheduler.value]
