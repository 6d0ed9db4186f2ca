"""A daemon's service on a port, in the daemon's own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from tvm_ios.jobs.http.access_token import fresh_token, read_token
from tvm_ios.jobs.http.address import bound_to, url_of
from tvm_ios.jobs.http.routes import job_routes
from tvm_ios.jobs.local.serve import Door
from tvm_ios.jobs.service import JobHost
from tvm_ios.jobs.state_folder import StateFolder

__all__ = ["http_door"]

_POLL_S = 0.01
_MOST_CONNECTIONS = 100
_LAST_ANSWERS_S = 1
"""Seconds that answers which are under way have when the daemon goes."""


@contextmanager
def http_door(
    address: str,
    folder: StateFolder,
    *,
    anywhere: bool = False,
    token_file: Path | None = None,
    tell: Callable[[str], None],
) -> Iterator[Door]:
    """What a daemon opens while it lives; address and token are known to be good before.

    Parameters
    ----------
    address, anywhere
        See :func:`~tvm_ios.jobs.http.address.bound_to`.
    folder
        Where the daemon's state lies; gets a file with a new token unless there is one.
    token_file
        Holds the token in place of a new one.
    tell
        Told in words where it listens.
    """
    given = None if token_file is None else nullcontext(read_token(token_file))
    with bound_to(address, anywhere=anywhere) as listener:
        yield _HttpDoor(
            listener=listener,
            token=given,
            token_file=token_file or folder.token,
            logs=folder.jobs,
            tell=tell,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _HttpDoor:
    listener: socket.socket
    token: AbstractContextManager[str] | None
    """None: a new one, made when this is the folder's only daemon for sure."""
    token_file: Path
    logs: Path
    tell: Callable[[str], None]

    @asynccontextmanager
    async def __call__(self, host: JobHost) -> AsyncIterator[None]:
        """Inside, requests are answered."""
        with self.token or fresh_token(self.token_file) as token:
            config = uvicorn.Config(
                job_routes(host, token, self.logs),
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                ws="none",
                limit_concurrency=_MOST_CONNECTIONS,
                timeout_graceful_shutdown=_LAST_ANSWERS_S,
            )
            server = _Server(config)
            serving = asyncio.ensure_future(server.serve([self.listener]))
            while not (server.started or serving.done()):
                await asyncio.sleep(_POLL_S)
            self.tell(f"listens at {url_of(self.listener)}, token in {self.token_file}")
            try:
                yield
            finally:
                server.should_exit = True
                await serving


class _Server(uvicorn.Server):
    """Leaves signals to the daemon, whose loop it shares."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
