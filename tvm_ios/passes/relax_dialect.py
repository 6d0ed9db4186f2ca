"""Relax as the passes see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm
import tvm_ffi

from tvm_ios import errors
from tvm_ios.compile.relax_model import build_relax
from tvm_ios.core.conversion import AS_IT_IS, Conversion
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database import open_database
from tvm_ios.devices.local import LocalCpu
from tvm_ios.errors import OptionError
from tvm_ios.passes.schedule_operators import ScheduleOperators, Scheduler
from tvm_ios.profile.relax.stage_prices import RelaxStagePrices
from tvm_ios.relax.prepare import PreparedModule, prepare
from tvm_ios.relax.rewrite import rewrite
from tvm_ios.relax.stage_ir import is_partitioned
from tvm_ios.relax.target import resolve_target
from tvm_ios.search.ios import search_ios

__all__ = [
    "is_partitioned",
    "measured_schedule",
    "pad_unless_done",
    "prepare_unless_done",
    "resolve_target",
    "rewrite",
]


# TVM-FFI carries exceptions of Python through C++ by the names of their classes.
for _error in vars(errors).values():
    if isinstance(_error, type) and issubclass(_error, errors.TvmIosError):
        tvm_ffi.register_error(_error.__name__, _error)


def prepare_unless_done(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    conversion: Conversion = AS_IT_IS,
) -> PreparedModule | None:
    """Module that is prepared; None for one that is partitioned, or no straight line of calls."""
    if conversion.changes:
        raise OptionError(
            f"{conversion.as_text()}: Relax models are compiled as they are; convert the model "
            "before, such as by tvm.relax.transform.ConvertLayout, and leave out conversion"
        )
    if is_partitioned(mod):
        return None
    prepared = prepare(mod, params, target)
    return None if prepared.extraction.line.obstacles else prepared


def pad_unless_done(
    mod: tvm.IRModule, params: Mapping[str, Any] | None, target: Any
) -> tvm.IRModule:
    """Refuse: only Relay models are padded."""
    del mod, params, target
    raise OptionError("PadChannels works on Relay only; leave it out for Relax modules")


def measured_schedule(options: ScheduleOperators, prepared: PreparedModule) -> InterOpSchedule:
    """Schedule by prices that are measured on this machine."""
    device = LocalCpu()
    lanes, database = device.require_lanes(options.lanes), open_database(options.database)
    model = build_relax(prepared.module, None, prepared.target)
    with (
        device.open() as session,
        RelaxStagePrices(model, lanes=lanes, session=session, database=database) as prices,
    ):
        if options.chosen_scheduler() is Scheduler.LIST:
            return options.list_by(model.graph, prices)
        return search_ios(model.graph, prices, options.limits()).schedule
