"""A run of AutoTVM's tuners: loop and stages, table, clock, and log.

TVM's ``Tuner.tune`` does the same without stopping: next batch, build, run, update.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tvm import autotvm
from tvm.autotvm.measure import MeasureInput, MeasureResult
from tvm.autotvm.tuner import Tuner

from tvm_ios.support.progress import ProgressListener
from tvm_ios.support.stage_gate import StageGate, StageKind, StageNeed
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.tuning.autotvm.measure import Measuring, died, in_tuning
from tvm_ios.tuning.autotvm.tasks import KernelTask
from tvm_ios.tuning.autotvm.tuners import PlannedTuner, end_workers, fits_next, use_cores
from tvm_ios.tuning.measured_batch import BatchDevice, measure_batch
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.outcome import TaskOutcome, notes_of_run, progress_of_job, step_of_run
from tvm_ios.tuning.records.records import append_records

__all__ = ["TuningRun", "cost_s", "outcome_row", "quiet"]


@dataclass(slots=True, kw_only=True)
class TuningRun:
    """State of one tuning run: table, clock, log, and listener."""

    records: Path
    options: TuningOptions
    gate: StageGate
    progress: ProgressListener | None
    time_left: TimeBudget
    begin: float
    rows: list[TaskOutcome]
    total: int
    """Number of candidates that may be measured now."""
    done: int = 0
    late: bool = False

    def tune(self, place: int, task: KernelTask, plan: PlannedTuner, measuring: Measuring) -> None:
        """Measure candidates of a task until none is left, or no better one comes."""
        if measuring.needs_limits:
            with self.gate.stage(StageNeed.to_profile(1, task.name)) as granted:
                measuring.learn_limits(granted, task.task)
        tuner = self._made(task, plan)
        try:
            with in_tuning():  # only now: a tuner that learns from a log leaves it at its end
                self._loop(place, task, plan, tuner, measuring)
        finally:
            end_workers(tuner)

    def _loop(
        self,
        place: int,
        task: KernelTask,
        plan: PlannedTuner,
        tuner: Tuner,
        measuring: Measuring,
    ) -> None:
        done, best_at, best_s, left = 0, 0, math.inf, plan.left
        first = [task.task.config_space.get(index) for index in plan.first]
        while done < left and (first or tuner.has_next()) and not self.late:
            with self.gate.stage(self._need(StageKind.SEARCH, task)):
                others = min(measuring.width, left - done) - len(first)
                configs = [*first, *tuner.next_batch(others)]
                first = []
            inputs = [MeasureInput(task.task.target, task.task, config) for config in configs]
            results = self._measured(place, inputs, measuring)
            for offset, result in enumerate(results):
                if cost_s(result) < best_s:
                    best_at, best_s = done + offset, cost_s(result)
            done += len(results)
            # As TVM counts: from the place of the best candidate, the first one's being 0.
            if done >= best_at + (self.options.early_stopping or math.inf):
                return
            if done < left and not self.late:
                self._update(task, tuner, inputs, results)

    def notes(self) -> Iterator[str]:
        """Notes for the user: tasks without a record, an early end."""
        late_s = self.options.time_budget_s if self.late else None
        return notes_of_run(self.rows, done=self.done, total=self.total, late_s=late_s)

    def _made(self, task: KernelTask, plan: PlannedTuner) -> Tuner:
        if not plan.learns_first:
            return plan.make(self.gate.most_cores)
        with self.gate.stage(self._need(StageKind.UPDATE, task)) as granted:
            return plan.make(len(granted.cores))

    def _update(
        self, task: KernelTask, tuner: Tuner, inputs: Sequence[Any], results: Sequence[Any]
    ) -> None:
        """Let the tuner learn; in a stage of its own only where it trains."""
        if not fits_next(tuner, results):
            tuner.update(inputs, results)
            return
        with self.gate.stage(self._need(StageKind.UPDATE, task)) as granted:
            use_cores(tuner, len(granted.cores))
            tuner.update(inputs, results)

    def _measured(self, place: int, inputs: Sequence[Any], measuring: Measuring) -> list[Any]:
        """Results of a batch, built, measured, and in the log."""
        name = self.rows[place].name
        with self.gate.stage(
            StageNeed(kind=StageKind.BUILD, most_cores=len(inputs), task=name)
        ) as granted:
            built = measuring.build(granted, inputs)
        failed = {at: one for at, one in enumerate(built) if isinstance(one, MeasureResult)}
        device = BatchDevice(
            run=lambda granted, places: measuring.run(
                granted, [inputs[at] for at in places], [built[at] for at in places]
            ),
            died=died,
            lost=measuring.lost,
            keep=lambda places, results: self._keep(place, [inputs[at] for at in places], results),
        )
        cores = measuring.device.cores_for(self.options.threads, gpu=measuring.gpu)
        need = StageNeed.to_profile(cores, name)
        return measure_batch(self.gate, need, len(inputs), device, failed)

    def _keep(self, place: int, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Write a batch into the log, at once and whole; then count and report it."""
        append_records(
            self.records,
            [
                autotvm.record.encode(measured, result)
                for measured, result in zip(inputs, results, strict=True)
            ],
        )
        self.done += len(results)
        costs_s = [cost_s(result) for result in results]
        self.rows[place] = self.rows[place].with_batch(costs_s, inputs[0].task.flop)
        self.late = not self.time_left.allows(0.0)
        self.gate.tell(progress_of_job(self.rows, self.total))
        self._tell(place)

    def _need(self, kind: StageKind, task: KernelTask) -> StageNeed:
        cores = self.gate.most_cores if kind is StageKind.UPDATE else 1
        return StageNeed(kind=kind, most_cores=cores, task=task.name)

    def _tell(self, place: int) -> None:
        if self.progress is None:
            return
        row = self.rows[place]
        best = "no candidate ran yet" if row.gflops is None else f"{row.gflops:.1f} GFLOPS"
        self.progress(
            step_of_run(
                self.rows,
                f"task {place + 1} of {len(self.rows)}: {row.name}, {best}",
                done=self.done,
                total=self.total,
                elapsed_s=time.monotonic() - self.begin,
            )
        )


def outcome_row(task: KernelTask, history: Sequence[tuple[Any, Any]]) -> TaskOutcome:
    """Row of the table for a task before anything is measured."""
    workload = json.dumps([task.task.name, task.task.args])
    empty = TaskOutcome(name=task.name, workload=workload, weight=task.weight, known=len(history))
    return empty.with_candidates([cost_s(result) for _, result in history], task.task.flop)


@contextmanager
def quiet() -> Iterator[None]:
    """Context in which AutoTVM does not log every failure with a trace; the table counts them."""
    logger: logging.Logger = logging.getLogger("autotvm")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def cost_s(result: Any) -> float:
    """Seconds of a candidate; infinite where it failed."""
    return math.inf if result.error_no else float(np.mean(result.costs))
