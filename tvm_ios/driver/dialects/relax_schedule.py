"""Compilation of a Relax model with a known schedule, without search or measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm

from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.relax_model import build_relax
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.driver.options import TuneOptions
from tvm_ios.errors import OptionError
from tvm_ios.relax.stage_ir import is_partitioned

__all__ = ["compile_model"]


def compile_model(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    schedule: InterOpSchedule | None,
    lanes: int | None,
    options: TuneOptions,
) -> CompiledModel:
    """Compiled model; arguments are those of ``compile_schedule``."""
    named = options.build.named_libraries or (schedule and schedule.libraries)
    if options.conversion.changes or named:
        what = f"libraries {named}" if named else options.conversion.as_text()
        raise OptionError(
            f"{what}: models of Relax are compiled as they are, by TVM alone; leave that out"
        )
    if schedule is not None and is_partitioned(mod):
        raise OptionError(
            "the module is partitioned already, so it has a schedule; "
            "pass either the original module or no schedule"
        )
    return build_relax(mod, params, target).lower(schedule, lanes=lanes)
