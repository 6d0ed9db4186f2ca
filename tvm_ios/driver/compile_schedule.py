"""``compile_schedule``: compiles a model with a known schedule, without search or measurement."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import tvm

from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.driver.options import DEFAULTS, TuneOptions, require_options
from tvm_ios.runtime.base.tvm_names import DIALECT
from tvm_ios.support.exact_bits import exact_bits

__all__ = ["compile_schedule"]


def compile_schedule(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    *,
    schedule: InterOpSchedule | None = None,
    lanes: int | None = None,
    options: TuneOptions = DEFAULTS,
) -> CompiledModel:
    """Compile a model with a known schedule, without search or measurement.

    Parameters
    ----------
    mod
        A Relay module, or with TVM 0.27 one in Relax; or one that ``ScheduleOperators`` has
        partitioned, with no ``schedule``.
    params
        Parameters by name.
    target
        A CPU target, or a GPU such as ``cuda -arch=sm_90``, which needs ``nvcc`` but no GPU; the
        best for this processor where omitted.
    schedule
        Schedule that ``tune`` found for this model before; sequential order where omitted.
    lanes
        Threads that run the model, the caller's included; the usable cores where omitted. On a
        GPU, streams: as many as the widest stage has groups where omitted.
    options
        Options that ``schedule`` was found with, since it fits only their graph. Read are
        ``conversion`` and, of ``build``, ``libraries``, ``tf32`` and ``exact``; none of them is for
        Relax. The schedule's
        operator libraries compute what it gives them; one that is named here also computes all it
        can where the schedule was found without. A library is needed to run the model, not to
        compile it.

    Raises
    ------
    ScheduleError
        If the schedule is for another graph or breaks a rule.
    ModelError, OptionError
        As :func:`tune`.
    """
    require_options(options)
    # Each room imports a dialect that only one TVM has.
    dialect = import_module(f"tvm_ios.driver.dialects.{DIALECT}_schedule")
    with exact_bits(options.build.exact):
        model: CompiledModel = dialect.compile_model(mod, params, target, schedule, lanes, options)
    return model
