"""Outcome of tuning: a row for each task, as in Ansor's task table."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from tvm_ios.report.table import Table
from tvm_ios.support.progress import Progress
from tvm_ios.support.stage_gate import JobProgress

__all__ = ["TaskOutcome", "TuningOutcome", "notes_of_run", "progress_of_job", "step_of_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """A kernel that was tuned, or could have been."""

    name: str
    """Name of the kernel, for people."""
    workload: str
    """Key of the kernel's records."""
    weight: int = 1
    """Number of times that the network runs the kernel."""
    trials: int = 0
    """Number of candidates measured now."""
    known: int = 0
    """Number of candidates found in the log."""
    failed: int = 0
    """Number of candidates, now or in the log, that did not compile or run."""
    latency_ns: int | None = None
    """Nanoseconds of the best candidate; None where none ran."""
    gflops: float | None = None
    """GFLOPS of the best candidate."""

    def with_batch(self, costs_s: Sequence[float], flop: float) -> TaskOutcome:
        """Row with candidates that were measured now; as :meth:`with_candidates`."""
        counted = replace(self, trials=self.trials + len(costs_s))
        return counted.with_candidates(costs_s, flop)

    def with_candidates(self, costs_s: Sequence[float], flop: float) -> TaskOutcome:
        """Row with more candidates, whose trials are counted elsewhere.

        Seconds are infinite where a candidate failed; ``flop`` is of one run.
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
    """Outcome of tuning all tasks of one network."""

    backend: str
    tasks: tuple[TaskOutcome, ...]
    seconds: float
    notes: tuple[str, ...] = ()
    """Lines for the user: tasks without a record, rejected lines, an early end."""

    @property
    def trials(self) -> int:
        """Number of candidates measured now."""
        return sum(task.trials for task in self.tasks)

    @property
    def total_ns(self) -> int:
        """Sum in nanoseconds over kernel calls of the network, each by its best kernel."""
        return sum(task.weight * (task.latency_ns or 0) for task in self.tasks)

    def as_text(self) -> str:
        """Table as text: task, how often it runs, latency, GFLOPS, trials."""
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


def notes_of_run(
    rows: Collection[TaskOutcome], *, done: int, total: int, late_s: float | None
) -> Iterator[str]:
    """Notes for the user: tasks without a record, an early end.

    ``done`` of ``total`` candidates were measured; ``late_s`` is a time budget that is spent.
    """
    without = [row.name for row in rows if row.latency_ns is None]
    if without:
        yield (
            f"{len(without)} of {len(rows)} tasks have no valid record and keep TVM's default "
            f"schedule, such as {without[0]}"
        )
    if late_s is not None and done < total:
        yield (
            f"the time budget of {late_s:g} s ended tuning after {done} of {total} candidates; the "
            "same call goes on from there"
        )


def step_of_run(
    rows: Collection[TaskOutcome], detail: str, *, done: int, total: int, elapsed_s: float
) -> Progress:
    """Step of tuning for a listener; other arguments as :func:`notes_of_run`."""
    return Progress(
        phase="tune",
        detail=detail,
        done=done,
        unit=f"of {total} candidates",
        share=done / max(1, total),
        best_ms=_best_ms(rows),
        elapsed_s=elapsed_s,
    )


def progress_of_job(rows: Collection[TaskOutcome], total: int) -> JobProgress:
    """Progress of a job that means to measure ``total`` candidates more; those in the log count."""
    known = sum(row.known for row in rows)
    return JobProgress(
        trials=known + sum(row.trials for row in rows),
        total=known + total,
        best_ms=_best_ms(rows),
        stage="tune",
    )


def _best_ms(rows: Collection[TaskOutcome]) -> float | None:
    """Milliseconds of all kernel calls by the best kernels; None while a kernel has none."""
    best_ns = [row.weight * row.latency_ns for row in rows if row.latency_ns is not None]
    return sum(best_ns) / 1e6 if len(best_ns) == len(rows) else None
