"""Requests and answers on a Unix socket, one line each."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from tvm_ios.errors import JobError
from tvm_ios.jobs.daemon.daemon import Daemon
from tvm_ios.jobs.daemon.service import Answer, Refused, Request, answer_text
from tvm_ios.jobs.state_folder import StateFolder
from tvm_ios.support.json_nouns import from_json, to_json
from tvm_ios.support.stored_value import UnreadableValueError

__all__ = ["ask_daemon", "listening"]

_LINE_LIMIT = 1 << 26
_ANSWER_S = 30.0


@asynccontextmanager
async def listening(daemon: Daemon, path: Path) -> AsyncIterator[None]:
    """Inside, requests on this socket are answered; only processes of its owner may ask."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, ValueError):
            async for line in reader:
                text = answer_text(daemon, line.decode(errors="replace"))
                writer.write(text.encode() + b"\n")
                await writer.drain()
        writer.close()

    # A daemon that was killed has left its socket, and a name that is there cannot be bound.
    path.unlink(missing_ok=True)
    with _short(path) as address:
        server = await asyncio.start_unix_server(serve, address, limit=_LINE_LIMIT)
        path.chmod(0o600)
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


def ask_daemon(folder: StateFolder, request: Request) -> Answer | None:
    """The answer of the daemon of a folder; None where none lives."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(_ANSWER_S)
        try:
            with _short(folder.socket) as address:
                line.connect(address)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        try:
            line.sendall(to_json(Request, request).encode() + b"\n")
            with line.makefile("r", encoding="utf-8") as lines:
                answer: Answer = from_json(Answer, lines.readline(), "the daemon's answer")
        except (OSError, UnreadableValueError) as error:
            raise JobError(
                f"the daemon at {folder.socket} gave no answer: {error}; see whether it lives: "
                f"its process id is in {folder.lock}"
            ) from error
    if isinstance(answer, Refused):
        raise JobError(answer.reason)
    return answer


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """The path in less than the 108 bytes that an address may have, valid inside."""
    descriptor = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)
