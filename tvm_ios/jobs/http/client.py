"""Questions to a daemon over HTTP."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from tvm_ios.errors import JobError
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.service import (
    Answer,
    AskMachine,
    AskStatus,
    AskTrace,
    CancelJob,
    Cancelled,
    JobStatuses,
    Refused,
    Request,
    SubmitJobs,
    Submitted,
    TracedStages,
)
from tvm_ios.support.json_nouns import from_json, to_json
from tvm_ios.support.stored_value import UnreadableValueError

__all__ = ["DaemonUrl"]

_ANSWER_S = 30.0
_CONNECTIONS: Mapping[str, type[http.client.HTTPConnection]] = {
    "http": http.client.HTTPConnection,
    "https": http.client.HTTPSConnection,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """How a request is put."""

    method: str
    path: str
    answer: type[Answer]
    body: str | None = None


_CALLS: Mapping[type, Callable[[Any], _Call]] = {
    AskMachine: lambda _: _Call(method="GET", path="/machine", answer=Machine),
    AskStatus: lambda _: _Call(method="GET", path="/jobs", answer=JobStatuses),
    AskTrace: lambda _: _Call(method="GET", path="/trace", answer=TracedStages),
    SubmitJobs: lambda request: _Call(
        method="POST", path="/jobs", answer=Submitted, body=to_json(Request, request)
    ),
    CancelJob: lambda request: _Call(
        method="DELETE", path=f"/jobs/{quote(request.name, safe='')}", answer=Cancelled
    ),
}


@dataclass(frozen=True, slots=True)
class DaemonUrl:
    """A daemon that serves over HTTP.

    Raises
    ------
    JobError
        If the URL is none.
    """

    url: str
    """Such as ``http://127.0.0.1:8642``."""
    token: str

    def __post_init__(self) -> None:
        """Refuse what is no URL."""
        try:
            parts = urlsplit(self.url)
            fit = parts.scheme in _CONNECTIONS and parts.hostname and parts.port != 0
        except ValueError:
            fit = False
        if not fit:
            raise JobError(
                f"--url {self.url} is no URL of a daemon; give what it said when it began to "
                "listen, such as http://127.0.0.1:8642"
            )

    def ask(self, request: Request) -> Answer:
        """What the daemon answers.

        Raises
        ------
        JobError
            If it refuses, is not there, or does not answer in time.
        """
        call = _CALLS[type(request)](request)
        with self._answered(call.method, call.path, call.body) as answered:
            text = answered.read().decode(errors="replace")
        try:
            answer: Answer = from_json(call.answer, text, "the daemon's answer")
        except UnreadableValueError as error:
            raise JobError(f"{self.url} is another program: {error}") from error
        return answer

    def log(self, name: str) -> Iterator[bytes]:
        """The log of a job, piece by piece; errors as in `ask`."""
        with self._answered("GET", f"/jobs/{quote(name, safe='')}/logs") as answered:
            while chunk := answered.read1():
                yield chunk

    @contextmanager
    def _answered(
        self, method: str, path: str, body: str | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        parts = urlsplit(self.url)
        headers = {"Authorization": f"Bearer {self.token}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        # It neither follows redirects nor asks proxies, which would hand the token on.
        line = _CONNECTIONS[parts.scheme](parts.netloc.rpartition("@")[2], timeout=_ANSWER_S)
        try:
            line.request(method, parts.path.rstrip("/") + path, body, headers)
            with line.getresponse() as answered:
                if answered.status >= http.HTTPStatus.MULTIPLE_CHOICES:
                    raise JobError(_reason(self.url, answered))
                yield answered
        except (OSError, http.client.HTTPException) as error:
            raise JobError(
                f"no daemon answers at {self.url}: {error}; start one: tvm-ios jobs serve "
                "jobs.toml --http 127.0.0.1:8642"
            ) from error
        finally:
            line.close()


def _reason(url: str, answered: http.client.HTTPResponse) -> str:
    """Why a daemon refused."""
    text = answered.read().decode(errors="replace")
    try:
        refused: Refused = from_json(Refused, text, "the refusal")
    except UnreadableValueError:
        return f"{url} answered {answered.status} {answered.reason}; is it a daemon of tvm-ios?"
    return refused.reason
