"""A job as the scheduler knows it: the order, and how far it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from tvm_ios.jobs.core.resources import DeviceKind, DeviceWish
from tvm_ios.support.stage_gate import JobProgress, StageKind, StageNeed

__all__ = ["Job", "JobSpec", "JobState", "Remaining"]


class JobState(Enum):
    """State of a job between submission and end."""

    WAITING = "waiting"
    """The job has no worker yet."""
    RUNNING = "running"
    """The job has a worker, or one that died is being started again."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether it will never change again."""
        return self not in (JobState.WAITING, JobState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """The rest of a job, in seconds."""

    device_s: float = 0.0
    """Seconds of a device."""
    core_s: float = 0.0
    """Seconds of cores, while profiles run not counted."""
    alone_s: float = 0.0
    """Seconds it would take if it had all it asks for at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A model to tune, as it was submitted. Only name, device and kind bind the scheduler."""

    name: str
    model: str = ""
    """Path of the model."""
    config: str = ""
    """Path of the options of its tuning."""
    device: str = ""
    """The device that it is tuned for; empty: any, and each batch may run on another one."""
    kind: DeviceKind | None = None
    """The kind of device that will do where none is named; None: every kind."""
    key: str = ""
    """Key of the boards that will do where no device is named; empty: every device."""
    trials: int | None = None
    """Candidates it will measure, before it says so itself; None: like other jobs."""
    batch: int = 64
    """Candidates it measures in one profile."""
    expected: Remaining | None = None
    """Estimate for the whole job, from an earlier run; None: nobody knows."""
    sla_ms: float | None = None
    """The latency that is asked for, in milliseconds; the scheduler only shows it."""

    @property
    def wish(self) -> DeviceWish:
        """The devices that will do."""
        return DeviceWish(self.device, self.kind, self.key)


@dataclass(slots=True, kw_only=True)
class Job:
    """A job while the scheduler knows it. Invariant: it has a request, a lease, or neither."""

    spec: JobSpec
    number: int
    """Place in the order of submission, from 0."""
    submitted_s: float
    state: JobState = JobState.WAITING
    reason: str = ""
    """Reason of the failure; empty for jobs that have not failed."""
    attempt: int = 0
    """Workers started for it so far."""
    started_s: float = 0.0
    """Time at which the first worker was started."""
    ended_s: float = 0.0
    last_need: StageNeed | None = None
    """Need of the latest request, granted or not; None right after a worker was started."""
    guess_s: float = 0.0
    """Estimate for the latest request when it was asked for."""
    verdict: JobState | None = None
    """State of the job once its worker is gone; None: nobody has told the worker to stop."""
    progress: JobProgress = field(default_factory=lambda: JobProgress(trials=0))
    deaths: Counter[tuple[StageKind | None, str]] = field(default_factory=Counter)
    """Workers that died, by stage and task. A stage that ends well forgets its own."""
