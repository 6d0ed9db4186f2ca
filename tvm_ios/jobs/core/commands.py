"""Commands to an executor, which obeys them in the order it is told."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.resources import Lease

__all__ = [
    "Command",
    "GrantLease",
    "JobChanged",
    "RePinLease",
    "ReportPolicy",
    "RevokeLease",
    "StartWorker",
    "StopWorker",
]


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Start a job's worker, or start it again: it takes up its records and goes on."""

    job: str
    attempt: int
    """Number of the worker among those of its job, from 1."""
    node: str = ""
    """The node that it is started on; empty where there is one machine only."""


@dataclass(frozen=True, slots=True)
class StopWorker:
    """End a job's worker with all its processes, then say `WorkerDied`."""

    job: str


@dataclass(frozen=True, slots=True)
class GrantLease:
    """Pin a job's processes to the cores of the lease, and open its gate."""

    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class RePinLease:
    """Pin all processes of a stage that does not measure to these cores, then say `RePinned`."""

    job: str
    epoch: int
    serial: int
    """Number of the re-pin among those of its lease, from 1."""
    cores: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RevokeLease:
    """Tell a job that its device is lost.

    It keeps what is measured, records no failure for the rest, says
    ``StageReleased(finished=False)``, and waits at the same gate for another grant.
    """

    job: str
    epoch: int


@dataclass(frozen=True, slots=True)
class JobChanged:
    """Say that a job is in another state; with a reason where it failed."""

    job: str
    state: JobState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReportPolicy:
    """Say that a policy is at fault; requests are served when they are too old until it is not."""

    error: str


Command = (
    StartWorker | StopWorker | GrantLease | RePinLease | RevokeLease | JobChanged | ReportPolicy
)
