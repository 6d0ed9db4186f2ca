"""Schedules in Relax: attributes of functions, as :mod:`tvm_ios.core.stage_attributes` says."""

from __future__ import annotations

import tvm

from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.stage_attributes import has_schedule, is_stage, schedule_from
from tvm_ios.errors import ModelError
from tvm_ios.relax.ir import main_of

__all__ = ["is_partitioned", "read_schedule"]


def is_partitioned(module: tvm.IRModule) -> bool:
    """True if a schedule has been written into a module."""
    main = main_of(module)
    return main is not None and has_schedule(main.attrs)


def read_schedule(module: tvm.IRModule) -> InterOpSchedule:
    """Schedule that was written into a partitioned module.

    Raises
    ------
    ModelError
        If the module is not partitioned or its attributes contradict each other.
    """
    main = main_of(module)
    if main is None or not has_schedule(main.attrs):
        raise ModelError(
            "the module is not partitioned into stages; apply tvm_ios.relax.rewrite or the pass "
            "ScheduleOperators first"
        )
    stages = {
        variable.name_hint: function.attrs
        for variable, function in module.functions_items()
        if is_stage(function.attrs)
    }
    return schedule_from(main.attrs, stages)
