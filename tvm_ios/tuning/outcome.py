"""Outcome of tuning: one row a task, as Ansor's task table has it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm_ios.report.table import Table
from tvm_ios.support.stage_gate import JobProgress

__all__ = ["TaskOutcome", "TuningOutcome", "progress_of_job"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """One kernel that was tuned, or could have been."""

    name: str
    """Name of the kernel, for people."""
    workload: str
    """The key its records carry."""
    weight: int = 1
    """How often the network runs it."""
    trials: int = 0
    """Candidates measured now."""
    known: int = 0
    """Candidates found in the log."""
    failed: int = 0
    """Candidates, now or in the log, that did not compile or run."""
    latency_ns: int | None = None
    """Latency of the best candidate; None where none ran."""
    gflops: float | None = None
    """GFLOPS of the best candidate."""

    def with_candidates(self, costs_s: Sequence[float], flop: float) -> TaskOutcome:
        """The row with more candidates, whose trials are counted elsewhere.

        Parameters
        ----------
        costs_s
            Seconds of each; infinite where it failed.
        flop
            Floating-point operations of one run.
        """
        best_s = min([*costs_s, math.inf if self.latency_ns is None else self.latency_ns / 1e9])
        return replace(
            self,
            failed=self.failed + sum(map(math.isinf, costs_s)),
            latency_ns=None if math.isinf(best_s) else round(best_s * 1e9),
            gflops=None if math.isinf(best_s) else flop / best_s / 1e9,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningOutcome:
    """What tuning did for all tasks of one network."""

    backend: str
    tasks: tuple[TaskOutcome, ...]
    seconds: float
    notes: tuple[str, ...] = ()
    """What a user should know: tasks without a record, rejected lines, an early end."""

    @property
    def trials(self) -> int:
        """Candidates measured now."""
        return sum(task.trials for task in self.tasks)

    @property
    def total_ns(self) -> int:
        """The best kernels, one after another, as often as the network runs them."""
        return sum(task.weight * (task.latency_ns or 0) for task in self.tasks)

    def as_text(self) -> str:
        """The table: task, how often it runs, latency, GFLOPS, trials."""
        rows = tuple(
            (
                task.name,
                str(task.weight),
                "-" if task.latency_ns is None else f"{task.latency_ns / 1e6:.4f}",
                "-" if task.gflops is None else f"{task.gflops:.1f}",
                str(task.trials),
                str(task.known),
                str(task.failed),
            )
            for task in self.tasks
        )
        header = ("task", "uses", "best ms", "GFLOPS", "measured", "known", "failed")
        return "\n".join(
            [
                Table(header=header, rows=rows).as_text(),
                f"{self.backend}: {self.trials} candidates of {len(self.tasks)} tasks measured in "
                f"{self.seconds:.0f} s; the best kernels in a row take "
                f"{self.total_ns / 1e6:.3f} ms",
                *(f"note: {note}" for note in self.notes),
            ]
        )


def progress_of_job(rows: Sequence[TaskOutcome], total: int) -> JobProgress:
    """How far the tuning of a job's kernels is; what was in the log before counts.

    Parameters
    ----------
    total
        Candidates that this call means to measure.
    """
    known = sum(row.known for row in rows)
    best_ns = [row.weight * row.latency_ns for row in rows if row.latency_ns is not None]
    return JobProgress(
        trials=known + sum(row.trials for row in rows),
        total=known + total,
        best_ms=sum(best_ns) / 1e6 if len(best_ns) == len(rows) else None,
        stage="tune",
    )
