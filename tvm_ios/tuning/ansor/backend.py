"""auto_scheduler (Ansor): its task scheduler, cost model, builders and runners, its log format."""

from __future__ import annotations

import importlib
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.errors import TuningError
from tvm_ios.host import default_lanes
from tvm_ios.profile.fastest_build import Records
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.support.progress import ProgressListener
from tvm_ios.support.stage_gate import OpenGate, StageGate, StageNeed, clock_at_work
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.tuning.ansor.history import apply_history, known_records
from tvm_ios.tuning.ansor.run import TuningRun, outcome_row
from tvm_ios.tuning.ansor.tasks import KernelTask, extract_tasks
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.outcome import TuningOutcome
from tvm_ios.tuning.records.records import TuningRecord
from tvm_ios.tuning.remote import require_device

__all__ = ["ANSOR", "AnsorBackend"]

ANSOR = "auto_scheduler"
"""TVM's name for Ansor, and that of the variant with all its kernels."""
TRIALS_A_TASK = 64
"""Candidates for each task if not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsorBackend:
    """Tuner that uses TVM's auto_scheduler: no templates, and one budget for the whole network."""

    name: str = ANSOR
    extra_modules: tuple[tvm.IRModule, ...] = ()
    """Modules whose kernels are tuned as well: merged convolutions that the search may choose."""
    device: DeviceOptions = field(default_factory=DeviceOptions)
    """Device that candidates are measured on, if not this machine."""
    gate: StageGate = field(default_factory=lambda: OpenGate(most_cores=default_lanes()))
    """Gate that each of its stages passes before it begins."""

    def tune(
        self,
        mod: tvm.IRModule,
        params: Mapping[str, Any],
        target: tvm.target.Target,
        records: Path,
        options: TuningOptions,
        progress: ProgressListener | None = None,
    ) -> TuningOutcome:
        """Measure candidates, most of them where the network gains most, until the budget is spent.

        Candidates in the log count and are not measured again; the cost model learns from them.
        After Ctrl-C all earlier batches are in the log.
        """
        begin = time.monotonic()
        time_left = TimeBudget(options.time_budget_s, clock_s=clock_at_work(self.gate))
        _require_cost_model()
        require_device(self.device)
        with self.gate.stage(StageNeed.to_prepare(1, "tasks of auto_scheduler")):
            tasks = extract_tasks(
                mod,
                params,
                target,
                extra_modules=self.extra_modules,
                cores=options.threads or 1,
            )
        outcome = self.tune_tasks(tasks, records, options, progress, time_left=time_left)
        return replace(outcome, seconds=time.monotonic() - begin)

    def tune_tasks(
        self,
        tasks: Sequence[KernelTask],
        records: Path,
        options: TuningOptions,
        progress: ProgressListener | None = None,
        *,
        time_left: TimeBudget | None = None,
    ) -> TuningOutcome:
        """Outcome of :meth:`tune` for tasks of one target, in the rest of its time."""
        begin = time.monotonic()
        _require_cost_model()
        if time_left is None:
            time_left = TimeBudget(options.time_budget_s, clock_s=clock_at_work(self.gate))
        workloads = {task.workload for task in tasks}
        known = known_records(records, workloads, tasks[0].task.target) if tasks else {}
        counts = [len(known.get(task.workload, [])) for task in tasks]
        if options.trials is None:
            # The tuner spreads a network's candidates as it likes, but what others have takes
            # none from a task that nothing is known of.
            wanted = max(TRIALS_A_TASK * len(counts) - sum(counts), TRIALS_A_TASK * counts.count(0))
        else:
            wanted = options.trials - sum(counts)
        total = max(0, wanted)
        run = TuningRun(
            records=records,
            options=options,
            device=self.device,
            gpu=bool(tasks) and is_gpu_target(tasks[0].task.target),
            gate=self.gate,
            progress=progress,
            time_left=time_left,
            begin=begin,
            rows={task.workload: outcome_row(task, known.get(task.workload, [])) for task in tasks},
            flops={task.workload: task.flop for task in tasks},
            total=total,
        )
        if tasks and total:
            run.tune(_affordable(tasks, known, total), known)
        return TuningOutcome(
            backend=self.name,
            tasks=tuple(run.rows.values()),
            seconds=time.monotonic() - begin,
            notes=tuple(run.notes()),
        )

    def applied(
        self,
        records: Sequence[Path],
        target: tvm.target.Target | None = None,
        *,
        without: Collection[str] = frozenset(),
    ) -> AbstractContextManager[None]:
        """Context in which models are compiled with the best records of these logs.

        Workloads in ``without`` keep TVM's own kernel, such as those of
        :func:`tvm_ios.tuning.ansor.choice.judged_records`.
        """
        return apply_history(tuple(records), target, without=without)

    def variants(self, records: Sequence[Path], target: tvm.target.Target) -> Mapping[str, Records]:
        """Only way to apply logs: the fastest record of each task."""
        return {ANSOR: partial(self.applied, records, target)}


def _affordable(
    tasks: Sequence[KernelTask], known: Mapping[str, Sequence[TuningRecord]], total: int
) -> list[KernelTask]:
    """Tasks to tune: all, or as many as there are candidates, those with fewest records first."""
    if total >= len(tasks):
        return list(tasks)
    return sorted(tasks, key=lambda task: len(known.get(task.workload, [])))[:total]


def _require_cost_model() -> None:
    try:
        importlib.import_module("xgboost")
    except ImportError as error:
        raise TuningError(
            f"auto_scheduler's cost model needs the package xgboost, which cannot be imported "
            f"({error}); run: python -m pip install xgboost"
        ) from error
