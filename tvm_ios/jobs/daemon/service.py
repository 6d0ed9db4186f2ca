"""What may be asked of a daemon, and what it answers: nouns in JSON.

A request is an object with one key, the name of the request: ``{"CancelJob": {"name": "a"}}``. An
answer is one likewise; :class:`Refused` says why there is no better one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tvm_ios.errors import TvmIosError
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.core.trace import Span
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
    "JobHost",
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
    """The wish that these are run, too."""

    orders: tuple[JobOrder, ...]


@dataclass(frozen=True, slots=True)
class AskMachine:
    """The question what jobs would share; the answer is a `Machine`."""


@dataclass(frozen=True, slots=True)
class AskStatus:
    """The question how all jobs stand."""


@dataclass(frozen=True, slots=True)
class CancelJob:
    """The wish that a job ends."""

    name: str


@dataclass(frozen=True, slots=True)
class AskTrace:
    """The question which stages ran where, and when."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """The jobs that were new; the same jobs are not run twice."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobStatuses:
    """All jobs, in the order of submission."""

    jobs: tuple[JobStatus, ...]


@dataclass(frozen=True, slots=True)
class Cancelled:
    """It ends, or has ended before."""

    name: str


@dataclass(frozen=True, slots=True)
class TracedStages:
    """All stages, and where they may have run; times are seconds since 1970."""

    machine: Machine
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The request changed nothing."""

    reason: str


Request = SubmitJobs | AskMachine | AskStatus | CancelJob | AskTrace
Answer = Submitted | Machine | JobStatuses | Cancelled | TracedStages | Refused


class JobHost(Protocol):
    """Whoever has jobs; all may raise `JobError`."""

    @property
    def machine(self) -> Machine:
        """What the jobs share."""

    def submit(self, orders: Sequence[JobOrder]) -> tuple[str, ...]:
        """Take jobs; the names of those that are new."""

    def cancel(self, name: str) -> None:
        """Cancel a job."""

    def status(self) -> tuple[JobStatus, ...]:
        """How all jobs stand."""

    def spans(self) -> tuple[Span, ...]:
        """All stages."""


def answer_text(host: JobHost, text: str) -> str:
    """The answer to a request, both on one line of JSON. It never raises for bad requests."""
    try:
        request: Request = from_json(Request, text, "the request")
        answer = _ANSWERS[type(request)](host, request)
    except (TvmIosError, UnreadableValueError) as error:
        answer = Refused(str(error))
    return to_json(Answer, answer)


def _cancel(host: JobHost, request: CancelJob) -> Answer:
    host.cancel(request.name)
    return Cancelled(request.name)


_ANSWERS: Mapping[type, Callable[[JobHost, Any], Answer]] = {
    SubmitJobs: lambda host, request: Submitted(host.submit(request.orders)),
    AskMachine: lambda host, _: host.machine,
    AskStatus: lambda host, _: JobStatuses(host.status()),
    CancelJob: _cancel,
    AskTrace: lambda host, _: TracedStages(host.machine, host.spans()),
}
