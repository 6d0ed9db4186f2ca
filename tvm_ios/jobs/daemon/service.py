"""Requests to a daemon, and its answers: nouns in JSON.

A request is an object with one key, the name of the request: ``{"CancelJob": {"name": "a"}}``. An
answer is one likewise; :class:`Refused` says why there is no better one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tvm_ios.errors import TvmIosError
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.core.trace import Span
from tvm_ios.jobs.daemon.daemon import Daemon
from tvm_ios.jobs.order import JobOrder
from tvm_ios.support.json_nouns import from_json, to_json
from tvm_ios.support.stored_value import UnreadableValueError

__all__ = [
    "Answer",
    "AskMachine",
    "AskStatus",
    "AskTrace",
    "CancelJob",
    "Cancelled",
    "JobStatuses",
    "Refused",
    "Request",
    "SubmitJobs",
    "Submitted",
    "TracedStages",
    "answer_text",
]


@dataclass(frozen=True, slots=True)
class SubmitJobs:
    """Request to run these jobs, too."""

    orders: tuple[JobOrder, ...]


@dataclass(frozen=True, slots=True)
class AskMachine:
    """Request for the cores and devices that jobs would share; the answer is a `Machine`."""


@dataclass(frozen=True, slots=True)
class AskStatus:
    """Request for the statuses of all jobs."""


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Request to end a job."""

    name: str


@dataclass(frozen=True, slots=True)
class AskTrace:
    """Request for all stages: which ran where, and when."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """Answer with the jobs that were new; the same jobs are not run twice."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobStatuses:
    """Answer with the statuses of all jobs, in the order of submission."""

    jobs: tuple[JobStatus, ...]


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Answer that a job ends, or has ended before."""

    name: str


@dataclass(frozen=True, slots=True)
class TracedStages:
    """Answer with all stages, and where they may have run; times are seconds since 1970."""

    machine: Machine
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Answer that a request changed nothing, and why."""

    reason: str


Request = SubmitJobs | AskMachine | AskStatus | CancelJob | AskTrace
Answer = Submitted | Machine | JobStatuses | Cancelled | TracedStages | Refused


def answer_text(daemon: Daemon, text: str) -> str:
    """The answer to a request, both on one line of JSON. It never raises for bad requests."""
    try:
        request: Request = from_json(Request, text, "the request")
        answer = _ANSWERS[type(request)](daemon, request)
    except (TvmIosError, UnreadableValueError) as error:
        answer = Refused(str(error))
    return to_json(Answer, answer)


def _cancel(daemon: Daemon, request: CancelJob) -> Answer:
    daemon.cancel(request.name)
    return Cancelled(request.name)


_ANSWERS: Mapping[type, Callable[[Daemon, Any], Answer]] = {
    SubmitJobs: lambda daemon, request: Submitted(daemon.submit(request.orders)),
    AskMachine: lambda daemon, _: daemon.machine,
    AskStatus: lambda daemon, _: JobStatuses(daemon.status()),
    CancelJob: _cancel,
    AskTrace: lambda daemon, _: TracedStages(daemon.machine, daemon.spans()),
}
