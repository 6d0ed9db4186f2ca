"""Events of jobs and machines, from which alone the scheduler learns.

An executor reads everything that a worker wrote before it says that the worker died, and hands on a
job's records, then `ProgressTold`, then `StageReleased`: nothing that was measured is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.jobs.core.job_state import JobSpec
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.support.stage_gate import JobProgress, StageNeed

__all__ = [
    "DeviceBack",
    "DeviceLost",
    "Event",
    "JobCancelled",
    "JobEnded",
    "JobSubmitted",
    "NodeJoined",
    "NodeLost",
    "ProgressTold",
    "RePinned",
    "StageReleased",
    "StageRequested",
    "Tick",
    "WorkerDied",
]


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A job is to be run. Its name must be new, and its device known."""

    spec: JobSpec


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """Nobody wants the job any more; it ends when its worker is gone."""

    job: str


@dataclass(frozen=True, slots=True)
class StageRequested:
    """A job stands at its gate."""

    job: str
    need: StageNeed


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReleased:
    """A stage is over, and nothing of it computes any more. Of an older lease: it is ignored."""

    job: str
    epoch: int
    seconds: float | None = None
    """Seconds that the stage computed, if the worker measured them; None: those since the grant."""
    finished: bool = True
    """False after `RevokeLease` if the batch must be run again: its request waits anew."""


@dataclass(frozen=True, slots=True)
class ProgressTold:
    """A job says how far it is, after its records are written. Kept however late it comes."""

    job: str
    progress: JobProgress


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A job's worker has ended by itself; a reason says why it failed, and none that it is done."""

    job: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WorkerDied:
    """A job's worker and all its processes are gone, killed or stopped on command."""

    job: str


@dataclass(frozen=True, slots=True)
class DeviceLost:
    """A device answers no more; what runs on it will not end well."""

    device: str


@dataclass(frozen=True, slots=True)
class DeviceBack:
    """A lost device answers again."""

    device: str


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node of a cluster is there, be it for the first time or again; it has no worker yet."""

    node: str
    machine: Machine


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node is gone, with all workers on it; nothing of them computes any more."""

    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RePinned:
    """The processes of a stage are all on the cores of `RePinLease` with this serial, or later."""

    job: str
    epoch: int
    serial: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; see `Scheduler.wake_at`."""


Event = (
    JobSubmitted
    | JobCancelled
    | StageRequested
    | StageReleased
    | ProgressTold
    | JobEnded
    | WorkerDied
    | DeviceLost
    | DeviceBack
    | RePinned
    | NodeJoined
    | NodeLost
    | Tick
)
