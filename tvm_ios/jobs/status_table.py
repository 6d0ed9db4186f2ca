"""Statuses of jobs, for people."""

from __future__ import annotations

from collections.abc import Iterable

from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.report.table import Table

__all__ = ["status_line", "status_table"]

_LONGEST = 44


def status_table(jobs: Iterable[JobStatus]) -> Table:
    """A row a job: what it computes or waits for, trials, best estimate, and when it will end."""
    return Table(
        header=("job", "state", "stage", "trials", "best ms", "asked ms", "left", "took"),
        rows=tuple(_row(job) for job in jobs),
    )


def status_line(job: JobStatus) -> str:
    """A job on one line, for logs."""
    told = [f"{job.name}: {job.state.value}"]
    if _doing(job):
        told.append(_doing(job))
    if job.trials:
        told.append(f"{_trials(job)} trials")
    if job.best_ms is not None:
        told.append(f"best {job.best_ms:.3f} ms")
    return ", ".join(told)


def _row(job: JobStatus) -> tuple[str, ...]:
    doing = _doing(job)
    return (
        job.name,
        job.state.value,
        doing if len(doing) <= _LONGEST else doing[: _LONGEST - 3] + "...",
        _trials(job),
        "" if job.best_ms is None else f"{job.best_ms:.3f}",
        "" if job.sla_ms is None else f"{job.sla_ms:g}",
        "" if job.eta_s is None else _duration(job.eta_s),
        _duration(job.seconds) if job.seconds else "",
    )


def _doing(job: JobStatus) -> str:
    if job.state is JobState.FAILED:
        return job.reason
    if job.waits_for:
        return f"{job.stage} waits for {job.waits_for}".strip()
    if job.cores:
        return f"{job.stage} on {','.join(map(str, job.cores))}"
    return job.stage


def _trials(job: JobStatus) -> str:
    return str(job.trials) if job.total is None else f"{job.trials}/{job.total}"


def _duration(seconds: float) -> str:
    """A duration in hours, minutes and seconds.

    Examples
    --------
    >>> _duration(3725.0)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
