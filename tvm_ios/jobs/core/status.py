"""The status of a job, for those who ask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from tvm_ios.jobs.core.job_state import Job, JobSpec, JobState, Remaining
from tvm_ios.jobs.core.occupancy import Holding, Occupancy
from tvm_ios.jobs.core.view import Candidate
from tvm_ios.support.stage_gate import JobProgress

__all__ = ["JobStatus", "job_status"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job at one moment."""

    name: str
    state: JobState
    stage: str = ""
    """Kind and task of the stage that runs or is asked for; empty before the worker asks."""
    waits_for: str = ""
    """Obstacle to the stage; empty while it computes and after the job has ended."""
    cores: tuple[int, ...] = ()
    device: str = ""
    trials: int = 0
    """Candidates measured so far."""
    total: int | None = None
    """Candidates to be measured; None: nobody has said."""
    best_ms: float | None = None
    """About how long its network takes so far, in milliseconds."""
    sla_ms: float | None = None
    """The latency asked for, in milliseconds."""
    attempt: int = 0
    """Number of workers started for the job."""
    eta_s: float | None = None
    """Seconds until it ends, by estimates; None after it has ended."""
    seconds: float = 0.0
    """Seconds since the first worker was started, until now or the job's end."""
    reason: str = ""
    """Reason of the failure; empty for jobs that have not failed."""

    @classmethod
    def told(cls, spec: JobSpec, state: JobState, progress: JobProgress) -> Self:
        """The status of a job as far as the job itself has told it."""
        return cls(
            name=spec.name,
            state=state,
            trials=progress.trials,
            total=progress.total if progress.total is not None else spec.trials,
            best_ms=progress.best_ms,
            sla_ms=spec.sla_ms,
        )


def job_status(
    job: Job,
    holding: Holding | None,
    asked: Candidate | None,
    occupancy: Occupancy,
    left: Remaining,
    load_s: float,
    now: float,
) -> JobStatus:
    """The status of a job now.

    Its end is guessed from its own pace so far: the part that is done took as long as it did, with
    all its waiting. A job without a pace is thought to wait for all that is left of the others.
    """
    told = JobStatus.told(job.spec, job.state, job.progress)
    seconds = 0.0
    if job.attempt:
        seconds = (job.ended_s if job.state.ended else now) - job.started_s
    need = job.last_need if not job.state.ended else None
    granted = holding is not None and holding.granted_s is not None
    return replace(
        told,
        stage=f"{need.kind.value} {need.task}".strip() if need is not None else "",
        waits_for=_obstacle(job, holding, asked, occupancy),
        cores=holding.cores if holding is not None and granted else (),
        device=holding.lease.device if holding is not None and granted else "",
        attempt=job.attempt,
        eta_s=None if job.state.ended else _eta(told, seconds, left, load_s),
        seconds=seconds,
        reason=job.reason,
    )


def _eta(told: JobStatus, seconds: float, left: Remaining, load_s: float) -> float:
    if told.total is None or not told.trials or not seconds:
        return max(load_s, left.alone_s)
    return max(left.alone_s, seconds / told.trials * max(told.total - told.trials, 0))


def _obstacle(
    job: Job, holding: Holding | None, asked: Candidate | None, occupancy: Occupancy
) -> str:
    if job.state is JobState.WAITING:
        return "a worker"
    if holding is not None and holding.granted_s is None:
        return f"others to leave cores {', '.join(map(str, holding.cores))}"
    if asked is None:
        stopping = job.verdict is not None and not job.state.ended
        return "the end of its worker" if stopping else ""
    cores = asked.need.least_cores
    wanted = f"{cores} cores" if cores > 1 else "a core"
    if not asked.need.kind.measures:
        return wanted
    device = asked.wish.as_text()
    holder = occupancy.holder(asked.wish.name)
    if occupancy.is_lost(asked.wish.name):
        return f"{device}, which is lost"
    if holder is not None:
        return f"{device}, which {holder.lease.job} has"
    return f"{device} with {wanted}" if cores > 1 else device
