"""What is answered at which address: the nouns of the one service, as JSON.

Wrong tokens are answered with 401, unknown jobs with 404, bad ones with 422; whatever is refused
says why in a line, as ``{"reason": "..."}``.
"""

from __future__ import annotations

import secrets
import tomllib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tvm_ios.errors import JobError, TvmIosError, UnknownJobError
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.jobs_file import read_orders
from tvm_ios.jobs.local.agent import log_path
from tvm_ios.jobs.service import (
    AskMachine,
    AskStatus,
    AskTrace,
    CancelJob,
    JobHost,
    JobStatuses,
    Refused,
    Request,
    SubmitJobs,
    Submitted,
    answer_request,
)
from tvm_ios.support.json_nouns import from_json, to_json
from tvm_ios.support.stored_value import UnreadableValueError, parse_json

__all__ = ["LARGEST_BODY", "job_routes"]

LARGEST_BODY = 1 << 24
"""Bytes that a request may have: about 20,000 jobs."""
_CHUNK = 1 << 16
_HEALTH = "/health"
_NOUNS = "SubmitJobs"


@dataclass(frozen=True, slots=True)
class Health:
    """The answer to whoever asks whether anybody is there; it says nothing else."""

    status: str = "ok"


def job_routes(host: JobHost, token: str, folder: Path) -> Starlette:
    """The service as an ASGI application.

    Parameters
    ----------
    host
        Whoever has the jobs.
    token
        What each request but ``GET /health`` must bring, as ``Authorization: Bearer``.
    folder
        Has a folder for each job, with its log.
    """
    routes = _Routes(host, folder)
    return Starlette(
        routes=[
            Route(_HEALTH, routes.health),
            Route("/jobs", routes.jobs),
            Route("/jobs", routes.submit, methods=["POST"]),
            Route("/jobs/{name}", routes.job),
            Route("/jobs/{name}", routes.cancel, methods=["DELETE"]),
            Route("/jobs/{name}/logs", routes.logs),
            Route("/machine", routes.machine),
            Route("/trace", routes.trace),
        ],
        middleware=[Middleware(_TokenGate, token=token)],
        exception_handlers={
            UnknownJobError: _refuses(HTTPStatus.NOT_FOUND),
            TvmIosError: _refuses(HTTPStatus.UNPROCESSABLE_ENTITY),
            UnreadableValueError: _refuses(HTTPStatus.UNPROCESSABLE_ENTITY),
            HTTPException: _http_error,
        },
    )


@dataclass(frozen=True, slots=True)
class _Routes:
    host: JobHost
    folder: Path

    async def health(self, _: HttpRequest) -> Response:
        return _told(Health())

    async def jobs(self, _: HttpRequest) -> Response:
        return _told(answer_request(self.host, AskStatus()))

    async def job(self, request: HttpRequest) -> Response:
        return _told(self._job(request))

    async def submit(self, request: HttpRequest) -> Response:
        answer = answer_request(self.host, self._orders(request.headers, await _body(request)))
        assert isinstance(answer, Submitted)
        return _told(answer, HTTPStatus.CREATED if answer.names else HTTPStatus.OK)

    async def cancel(self, request: HttpRequest) -> Response:
        return _told(answer_request(self.host, CancelJob(request.path_params["name"])))

    async def logs(self, request: HttpRequest) -> Response:
        # A name that is a job's is that of a folder; no other leads to a file.
        path = log_path(self.folder / self._job(request).name)
        return StreamingResponse(_chunks(path), media_type="text/plain")

    async def machine(self, _: HttpRequest) -> Response:
        return _told(answer_request(self.host, AskMachine()))

    async def trace(self, _: HttpRequest) -> Response:
        return _told(answer_request(self.host, AskTrace()))

    def _job(self, request: HttpRequest) -> JobStatus:
        name = request.path_params["name"]
        answer = answer_request(self.host, AskStatus())
        assert isinstance(answer, JobStatuses)
        for job in answer.jobs:
            if job.name == name:
                return job
        names = ", ".join(job.name for job in answer.jobs) or "none"
        raise UnknownJobError(f"there is no job {name!r}; there are {names}")

    def _orders(self, headers: Headers, text: str) -> Request:
        """The jobs of a body: the tables of a jobs file as TOML or JSON, or nouns."""
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return SubmitJobs(read_orders(_toml(text), self.host.machine, Path.cwd()))
        tables = {name: each.value for name, each in parse_json(text, "the body").fields().items()}
        if _NOUNS in tables:
            request: Request = from_json(Request, text, "the body")
            return request
        return SubmitJobs(read_orders(tables, self.host.machine, Path.cwd()))


class _TokenGate:
    """Lets nobody pass who does not know the token, before any of the body is read."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = Headers(scope=scope).get("authorization", "").encode("latin-1")
        if scope["path"] == _HEALTH or secrets.compare_digest(given, self._wanted):
            await self._app(scope, receive, send)
            return
        words = "a token was given that is not mine" if given else "no token was given"
        refused = _told(
            Refused(f"{words}; send the header Authorization: Bearer TOKEN (--token-file)"),
            HTTPStatus.UNAUTHORIZED,
            {"WWW-Authenticate": "Bearer"},
        )
        await refused(scope, receive, send)


async def _body(request: HttpRequest) -> str:
    """The text of a body that is not too long; of one that is, no more than that is read."""
    _require_short(int(request.headers.get("content-length", 0)))
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        _require_short(len(found))
    try:
        return found.decode()
    except UnicodeDecodeError as error:
        raise JobError(f"the body is not text in UTF-8: {error}") from error


def _require_short(length: int) -> None:
    if length > LARGEST_BODY:
        raise HTTPException(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body has more than {LARGEST_BODY} bytes; submit fewer jobs at a time",
        )


def _toml(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise JobError(
            f"the body is no TOML: {error}; see docs/jobs.md, and send JSON with the header "
            "Content-Type: application/json"
        ) from error


def _chunks(path: Path) -> Iterator[bytes]:
    """What a log holds now; nothing before a worker was started."""
    try:
        with path.open("rb") as log:
            while chunk := log.read(_CHUNK):
                yield chunk
    except FileNotFoundError:
        return


def _told(
    noun: Any, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    text = to_json(type(noun), noun) + "\n"
    return Response(text, status, headers, media_type="application/json")


def _refuses(status: HTTPStatus) -> Callable[[HttpRequest, Exception], Awaitable[Response]]:
    async def refuse(_: HttpRequest, error: Exception) -> Response:
        return _told(Refused(str(error)), status)

    return refuse


async def _http_error(request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    words = {
        HTTPStatus.NOT_FOUND: f"there is nothing at {request.url.path}; see docs/jobs.md",
        HTTPStatus.METHOD_NOT_ALLOWED: f"{request.method} is not for {request.url.path}",
    }
    return _told(Refused(words.get(status, error.detail)), status, error.headers)
