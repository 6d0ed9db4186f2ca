"""Schedules by prices that are measured on this machine, for passes."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.compile.built_model import build_prepared
from tvm_ios.compile.dialects.dialect import Prepared
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database import open_database
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.devices.targets import local_device
from tvm_ios.passes.schedule_operators import ScheduleOperators, Scheduler
from tvm_ios.profile.find_schedules import find_schedules
from tvm_ios.profile.list_choice import list_from
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.profile.way_choice import settled_prices
from tvm_ios.search.baselines import sequential_schedule

__all__ = ["measured_schedule"]


def measured_schedule(options: ScheduleOperators, prepared: Prepared) -> InterOpSchedule:
    """Schedule of a prepared module, by its options."""
    scheduler = options.chosen_scheduler()
    device = local_device(prepared.target)
    lanes, database = device.require_lanes(options.lanes), open_database(options.database)
    names = () if options.exact else options.libraries
    libraries = LibraryChoice(target=prepared.target, names=names).installed()
    built = replace(build_prepared(prepared), libraries=libraries)
    with (
        device.open() as session,
        StageKernels(built, lanes=lanes, session=session, database=database) as runner,
    ):
        kernels = MeasuredKernels(runner, database=database)
        prices = settled_prices(kernels)
        if scheduler is Scheduler.LIST:
            with kernels.resumable():
                in_order = sequential_schedule(prices.graph)
                return prices.annotate(list_from(prices, in_order, lanes=lanes))
        found = find_schedules(prices, {scheduler.value: options.limits()})
        return found.schedules[scheduler.value]
