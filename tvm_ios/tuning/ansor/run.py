"""A run of Ansor's search: table, clock, log, and reports."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm
from tvm import auto_scheduler
from tvm.auto_scheduler.search_policy import PreloadMeasuredStates
from tvm.auto_scheduler.task_scheduler import TaskSchedulerCallback

from tvm_ios.errors import TuningError
from tvm_ios.relay.context import reason_of
from tvm_ios.support.error_text import lines_that_tell
from tvm_ios.support.exact_bits import bits_may_change
from tvm_ios.support.progress import ProgressListener
from tvm_ios.support.safe_imports import safe_imports
from tvm_ios.support.stage_gate import StageGate, StageNeed
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.tuning.ansor.measure import Interruption, builder, lines_of, local_runner
from tvm_ios.tuning.ansor.stages import AnsorStages, StagedModel
from tvm_ios.tuning.ansor.tasks import KernelTask
from tvm_ios.tuning.ansor.workers import kept_workers
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.guard import guarded_workers
from tvm_ios.tuning.options import TuningOptions
from tvm_ios.tuning.outcome import TaskOutcome, notes_of_run, progress_of_job, step_of_run
from tvm_ios.tuning.records.records import TuningRecord, append_records

__all__ = ["TuningRun", "outcome_row", "round_size"]

WIDEST_ROUND, NARROWEST_ROUND = 64, 8
"""Candidates of a round: TVM's own number, and the fewest to learn from."""
POPULATION = 2048 // WIDEST_ROUND
"""Candidates the cost model ranks for one that is measured, in TVM's proportion. Without it a round
of four would take as long as one of 64: a minute and a half on two cores."""


class _EnoughError(Exception):
    """End of a search: the time budget is spent, or Ctrl-C was pressed."""


@dataclass(slots=True, kw_only=True)
class TuningRun:
    """State of one tuning run: table, clock, log, and listener."""

    records: Path
    options: TuningOptions
    device: DeviceOptions
    gpu: bool
    gate: StageGate
    progress: ProgressListener | None
    time_left: TimeBudget
    begin: float
    rows: dict[str, TaskOutcome]
    """Row of the table for each workload."""
    flops: Mapping[str, float]
    """Floating-point operations in one run of each workload."""
    total: int
    """Number of candidates that may be measured now."""
    done: int = 0
    first_failure: str = ""
    interruption: Interruption = field(default_factory=Interruption)

    def tune(
        self, tasks: Sequence[KernelTask], known: Mapping[str, Sequence[TuningRecord]]
    ) -> None:
        """Let TVM's task scheduler spend the budget."""
        options = self.options
        stages = AnsorStages(
            gate=self.gate,
            options=options,
            device=self.device,
            gpu=self.gpu,
            hear=self.hear,
            keep=self.keep,
        )
        with (
            self.interruption.kept(),
            guarded_workers(threads=options.threads or 1),
            safe_imports(),
            kept_workers(arithmetic=not self.gpu and bits_may_change()),
            _log_of(tasks, known) as history,
            stages.installed(),
        ):
            scheduler = auto_scheduler.TaskScheduler(
                [task.task for task in tasks],
                [task.weight for task in tasks],
                load_log_file=history,
                callbacks=[_Rounds(self, stages)],
            )
            width = round_size(self.total, len(tasks))
            settings = auto_scheduler.TuningOptions(
                num_measure_trials=self.total,
                early_stopping=options.early_stopping,
                num_measures_per_round=width,
                verbose=0,
                builder=builder(options, self.gate.most_cores),
                runner=local_runner(options, gpu=self.gpu),
            )
            try:
                scheduler.tune(
                    settings,
                    search_policy=self._policies(tasks, width, stages, history),
                    per_task_early_stopping=options.task_early_stopping,
                )
            except _EnoughError:
                return
            except tvm.TVMError as error:
                raise TuningError(
                    f"TVM's auto_scheduler failed after {self.done} of {self.total} candidates: "
                    f"{reason_of(error)}; what was measured lies in {self.records}, and the same "
                    "call goes on from there"
                ) from error

    def _policies(
        self, tasks: Sequence[KernelTask], width: int, stages: AnsorStages, history: str | None
    ) -> list[auto_scheduler.SketchPolicy]:
        """Search policies of the tasks, taught by a log; as TVM's ``"sketch.xgb"``."""
        model = StagedModel(stages, num_warmup_sample=len(tasks) * width)
        if history is not None:
            model.update_from_file(history)
        callbacks = None if history is None else [PreloadMeasuredStates(history)]
        with self.gate.stage(StageNeed.to_prepare(1, "policies of auto_scheduler")):
            return [
                auto_scheduler.SketchPolicy(
                    task.task,
                    model,
                    params={"evolutionary_search_population": POPULATION * width},
                    verbose=0,
                    init_search_callbacks=callbacks,
                )
                for task in tasks
            ]

    def keep(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Write a batch into the log, at once and whole; then count it."""
        self.hear()  # Ctrl-C may reach workers, too: this batch says nothing
        append_records(self.records, lines_of(inputs, results))
        self.done += len(results)
        workload = str(inputs[0].task.workload_key)
        costs_s = [_cost_s(result) for result in results]
        failures = [str(result.error_msg) for result in results if result.error_no]
        self.first_failure = self.first_failure or next(iter(failures), "")
        row = self.rows[workload].with_batch(costs_s, self.flops[workload])
        self.rows[workload] = row
        self.gate.tell(progress_of_job(self.rows.values(), self.total))
        self._tell(f"measured {row.name}")
        if self.is_late():
            raise _EnoughError

    def start_round(self, workload: str) -> None:
        """Report the next task, or end the search if there is no time."""
        self.hear()
        if self.is_late():
            raise _EnoughError
        self._tell(f"searching {self.rows[workload].name}")

    def hear(self) -> None:
        """End the search after Ctrl-C."""
        if self.interruption.seen:
            raise _EnoughError

    def is_late(self) -> bool:
        """True if the time budget is spent."""
        return not self.time_left.allows(0.0)

    def notes(self) -> Iterator[str]:
        """Notes for the user: tasks without a record, an early end, the first failure."""
        late_s = self.options.time_budget_s if self.is_late() else None
        rows = self.rows.values()
        yield from notes_of_run(rows, done=self.done, total=self.total, late_s=late_s)
        if self.first_failure and any(row.trials and row.latency_ns is None for row in rows):
            said = lines_that_tell(self.first_failure, "TVM gives no reason")[-1]
            yield f"the first candidate that failed: {said}"
        if not self.rows:
            yield "the model has no operator that auto_scheduler tunes"

    def _tell(self, what: str) -> None:
        if self.progress is None:
            return
        rows = self.rows.values()
        measured = sum(row.latency_ns is not None for row in rows)
        self.progress(
            step_of_run(
                rows,
                f"{what}; {measured} of {len(rows)} tasks",
                done=self.done,
                total=self.total,
                elapsed_s=time.monotonic() - self.begin,
            )
        )


class _Rounds(TaskSchedulerCallback):  # type: ignore[misc]
    """Callback that keeps the task scheduler within the budget, called before every round."""

    def __init__(self, run: TuningRun, stages: AnsorStages) -> None:
        self._run = run
        self._stages = stages

    def pre_tune(self, task_scheduler: auto_scheduler.TaskScheduler, task_id: int) -> None:
        # The last round would be as wide as all others, and go over the budget.
        left = self._run.total - task_scheduler.ct
        task_scheduler.num_measures_per_round = min(task_scheduler.num_measures_per_round, left)
        workload = str(task_scheduler.tasks[task_id].workload_key)
        self._run.start_round(workload)
        self._stages.begin_search(self._run.rows[workload].name)


@contextmanager
def _log_of(
    tasks: Sequence[KernelTask], known: Mapping[str, Sequence[TuningRecord]]
) -> Iterator[str | None]:
    """Path of a log with only the records of these tasks, since TVM refuses a log for one line."""
    lines = [record.line for task in tasks for record in known.get(task.workload, [])]
    with tempfile.TemporaryDirectory(prefix="tvm-ios-") as folder:
        if not lines:
            yield None
            return
        log = Path(folder) / "known.json"
        log.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        yield str(log)


def round_size(total: int, tasks: int) -> int:
    """Candidates of a round: a quarter of a task's share, so that most go where they pay."""
    share = total // tasks
    return max(min(NARROWEST_ROUND, share), min(WIDEST_ROUND, share // 4))


def outcome_row(task: KernelTask, known: Sequence[TuningRecord]) -> TaskOutcome:
    """Row of the table for a task before anything is measured."""
    empty = TaskOutcome(
        name=task.name, workload=task.workload, weight=task.weight, known=len(known)
    )
    return empty.with_candidates([record.mean_s for record in known], task.flop)


def _cost_s(result: Any) -> float:
    costs = [float(cost.value) for cost in result.costs]
    return math.inf if int(result.error_no) or not costs else math.fsum(costs) / len(costs)
