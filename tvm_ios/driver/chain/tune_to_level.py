"""Tuning to a service level: known records decide first, and only the needed part is tuned.

:mod:`~tvm_ios.driver.chain.service_level` has the policy; this builds, for chains and jobs alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from tvm_ios.compile.model import CompiledModel
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.devices.protocol import MeasuringDevice
from tvm_ios.driver.chain.latency import Latency
from tvm_ios.driver.chain.service_level import Reached, reach, trial_slices
from tvm_ios.driver.model_source import ModelSource
from tvm_ios.driver.options import TuneOptions
from tvm_ios.profile.build_candidates import changes_for
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.prepare import converted_model
from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.support.exact_bits import exact_bits
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.tuning.known_tasks import KnownTasks, known_tasks
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.records.record_index import RecordIndex, logs_in

__all__ = ["FrontDoor", "LevelRequest", "tune_to_level", "what_is_known"]


class FrontDoor(Protocol):
    """Call of :func:`tvm_ios.tune` with model, target and other arguments chosen."""

    def __call__(
        self,
        kernels: TuningOptions,
        *,
        tuner: str | None,
        records: tuple[Path, ...],
        time_budget: float | None,
    ) -> CompiledModel:
        """Model with kernels tuned by ``tuner``, or chosen from the records alone."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelRequest:
    """Service level of one model, and how it may be tuned."""

    sla_ms: float
    tuner: RecordFormat
    kernels: TuningOptions
    """Options of the tuner; its trials are those of the last slice."""
    log: Path
    """Log that gets new records."""


def what_is_known(
    source: ModelSource,
    target: Any,
    device: MeasuringDevice,
    tuner: RecordFormat,
    options: TuneOptions,
    log: Path,
) -> KnownTasks:
    """Known records of a model's tasks, in the form of which most is known.

    They are looked up in all logs of the cache folder, and in this one, if it exists. Without a
    target, they are for that of the device.
    """
    chosen = resolve_target(device.target if target is None else target)
    build, conversion = options.build, options.conversion
    choice = LibraryChoice(target=chosen, names=build.named_libraries, tf32=build.tf32)
    libraries = choice.of_target if options.device.is_remote else choice.installed()
    with exact_bits(build.exact):
        changes = changes_for(
            device.traits,
            pad_channels=build.pad_channels,
            race_forms=build.race_forms,
            libraries=libraries,
        )
    logs = dict.fromkeys((*logs_in(), *([log] if log.exists() else ())))
    mod, params = converted_model(source.mod, source.params, chosen, conversion)
    return known_tasks(
        mod,
        params,
        chosen,
        tuner,
        RecordIndex.of(logs),
        changes=() if conversion.changes else changes,
    )


def tune_to_level(
    request: LevelRequest,
    known: KnownTasks,
    front_door: FrontDoor,
    evaluate: Callable[[CompiledModel], Latency],
    *,
    budget: TimeBudget,
) -> Reached[CompiledModel]:
    """Build with known records if every task has one, then tune in slices until the level is met.

    Logs with known records of any task are used beside :attr:`LevelRequest.log`.
    """
    # Others are applied, but the tuner goes on from this log alone.
    in_all = request.tuner is RecordFormat.AUTO_SCHEDULER
    counts = [task.candidates_in(request.log) for task in known.tasks]
    slices = trial_slices(
        request.kernels.trials,
        known=sum(counts) if in_all else min(counts, default=0),
        tasks=max(1, len(counts)) if in_all else None,
    )
    others = tuple(log for log in known.logs if log != request.log)

    def build(trials: int | None) -> CompiledModel:
        left_s = None if math.isinf(budget.left_s) else max(1.0, budget.left_s)
        if trials == 0:
            return front_door(TuningOptions(), tuner=None, records=known.logs, time_budget=left_s)
        return front_door(
            replace(request.kernels, trials=trials),
            tuner=request.tuner.value,
            records=(request.log, *others),
            time_budget=left_s,
        )

    return reach(
        request.sla_ms,
        (0, *slices) if known.is_complete else slices,
        build,
        evaluate,
        budget=budget,
        notes=(known.as_text(),),
    )
