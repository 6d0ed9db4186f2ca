"""The agent of one machine: it owns the machine's workers, obeys commands and tells events.

It decides nothing. Whoever schedules may sit in the same process or elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import socket
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tvm_ios.host.pinning import pin_tree
from tvm_ios.jobs.core.commands import (
    Command,
    GrantLease,
    RePinLease,
    RevokeLease,
    StartWorker,
    StopWorker,
)
from tvm_ios.jobs.core.events import DeviceLost, Event, JobEnded, RePinned, WorkerDied
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.executor import Workers
from tvm_ios.jobs.local.lost_devices import LostDevices
from tvm_ios.jobs.local.worker_gate import Begin, FromWorker, ToWorker
from tvm_ios.support.json_nouns import from_json, to_json
from tvm_ios.support.safe_imports import SAFE_PATH
from tvm_ios.support.stored_value import UnreadableValueError
from tvm_ios.tuning.guard import end_processes

__all__ = ["WORKER_MARK", "LocalAgent", "log_path"]

_LOG = logging.getLogger(__name__)

WORKER_MARK = "TVM_IOS_WORKER"
"""Environment variable that all processes of one worker inherit."""
_ENVIRONMENT = {
    "TVM_BIND_THREADS": "0",  # TVM would pin its threads to cores that others have
    "PYTHONUNBUFFERED": "1",
    SAFE_PATH: "1",
}
_LINE_LIMIT = 1 << 20


@dataclass(slots=True, kw_only=True)
class _Worker:
    job: str
    process: subprocess.Popen[bytes]
    line: socket.socket
    mark: str
    todo: asyncio.Queue[Command] = field(default_factory=asyncio.Queue)
    """Commands in the order in which they are obeyed."""
    ended: JobEnded | None = None
    """The worker's last word, if it ended by itself."""


def log_path(folder: Path) -> Path:
    """The file that gets all that the workers of a job print."""
    return folder / "log.txt"


class LocalAgent(Workers):
    """Workers of this machine, each a process in a session of its own.

    The folder gets one for each job. ``say`` is told each event as
    :data:`~tvm_ios.jobs.executor.MakeWorkers` says.
    """

    def __init__(self, machine: Machine, folder: Path, say: Callable[[Event], None]) -> None:
        super().__init__(
            {
                StartWorker: self._start,
                StopWorker: self._stop,
                GrantLease: lambda command: self._queue(command.lease.job, command),
                RePinLease: lambda command: self._queue(command.job, command),
                RevokeLease: lambda command: self._queue(command.job, command),
            }
        )
        self._machine = machine
        self._folder = folder
        self._say = say
        self._workers: dict[str, _Worker] = {}
        self._lost = LostDevices(machine.devices, say)

    async def close(self) -> None:
        """End all workers. Nothing is told of it."""
        self._say = lambda _: None
        await self._lost.close()
        for worker in tuple(self._workers.values()):
            self._stop(StopWorker(worker.job))
        while self._tasks:
            await asyncio.wait(self._tasks)

    # ---- Commands ----

    def _start(self, command: StartWorker) -> None:
        order = self._orders[command.job]
        folder = self._folder / command.job
        ours, theirs = socket.socketpair()
        mark = uuid.uuid4().hex
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Our copy of their end is closed, or we would never read the end of the line.
            with theirs, log_path(folder).open("ab") as log:
                words = [sys.executable, "-m", "tvm_ios.jobs.local.worker", str(theirs.fileno())]
                _LOG.debug("runs %s", shlex.join(words))
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,  # Ctrl-C is for whoever started us
                    env={**os.environ, **_ENVIRONMENT, WORKER_MARK: mark},
                )
        except OSError as error:
            ours.close()
            reason = f"its worker cannot be started in {folder}: {error}"
            # The daemon is obeying commands now, so the event has to wait for its next turn.
            asyncio.get_running_loop().call_soon(lambda: self._say(JobEnded(command.job, reason)))
            return
        worker = _Worker(job=command.job, process=process, line=ours, mark=mark)
        self._workers[command.job] = worker
        begin = Begin(order=order, folder=str(folder), cores=self._machine.cores)
        self._spawn(self._live(worker, begin))

    def _stop(self, command: StopWorker) -> None:
        worker = self._workers.get(command.job)
        if worker is not None:
            self._spawn(asyncio.to_thread(end_processes, worker.mark, WORKER_MARK))

    def _queue(self, job: str, command: Command) -> None:
        worker = self._workers.get(job)
        if worker is not None:
            worker.todo.put_nowait(command)

    # ---- A worker's life ----

    async def _live(self, worker: _Worker, begin: Begin) -> None:
        """Live with a worker until none of its processes is left, and all it said is heard."""
        reader, writer = await asyncio.open_connection(sock=worker.line, limit=_LINE_LIMIT)
        _write(writer, begin)
        heard = asyncio.ensure_future(self._hear(worker, reader))
        served = asyncio.ensure_future(self._serve(worker, writer))
        await _exit_of(worker.process)
        try:
            # Its children may hold the socket open, and must not compute on cores given away.
            await asyncio.to_thread(end_processes, worker.mark, WORKER_MARK)
            await heard
            served.cancel()
            writer.close()
            with suppress(OSError, asyncio.CancelledError):
                await asyncio.gather(served, writer.wait_closed(), return_exceptions=True)
        finally:
            del self._workers[worker.job]
            self._say(worker.ended or WorkerDied(worker.job))

    async def _hear(self, worker: _Worker, reader: asyncio.StreamReader) -> None:
        """Hand on what a worker says; its last word waits until it is gone."""
        with suppress(ConnectionError):
            async for line in _lines(reader):
                try:
                    event = from_json(FromWorker, line.decode(), "an event")
                except (UnreadableValueError, UnicodeDecodeError):
                    continue  # it was killed within a line, or this is the end of a long one
                if isinstance(event, JobEnded):
                    worker.ended = event
                elif isinstance(event, DeviceLost):
                    self._lost.add(event.device)
                else:
                    self._say(event)

    async def _serve(self, worker: _Worker, writer: asyncio.StreamWriter) -> None:
        """Pin and answer, one command after the other: no old pin comes after a newer one."""
        try:
            await self._obey_in_turn(worker, writer)
        except Exception:  # noqa: BLE001 - whatever it is, the job begins again
            # Nobody answers it any more, so it would wait for ever.
            _LOG.exception("the worker of %s is ended, since it cannot be answered", worker.job)
            await asyncio.to_thread(end_processes, worker.mark, WORKER_MARK)

    async def _obey_in_turn(self, worker: _Worker, writer: asyncio.StreamWriter) -> None:
        while True:
            command = await worker.todo.get()
            if isinstance(command, GrantLease):
                await self._pin(worker, command.lease.cores)
                _write(writer, command)
            elif isinstance(command, RePinLease):
                await self._pin(worker, command.cores)
                # The pin comes first: whoever waits for these cores gets them at once.
                self._say(RePinned(job=command.job, epoch=command.epoch, serial=command.serial))
            elif isinstance(command, RevokeLease):
                _write(writer, command)

    async def _pin(self, worker: _Worker, cores: tuple[int, ...]) -> None:
        # A profile on a board with a host of its own has no core here, and computes nearly nothing.
        wanted = cores or self._machine.cores
        await asyncio.to_thread(pin_tree, wanted, worker.process.pid)


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a worker, without those that are too long."""
    while True:
        try:
            line = await reader.readline()
        except ValueError:
            _LOG.exception("a worker said more than %d bytes in a line", _LINE_LIMIT)
            continue  # the reader has dropped it
        if not line:
            return
        yield line


def _write(writer: asyncio.StreamWriter, command: ToWorker) -> None:
    if not writer.is_closing():
        writer.write(to_json(ToWorker, command).encode() + b"\n")


async def _exit_of(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process, whoever takes its exit status."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    descriptor = os.pidfd_open(process.pid)
    try:
        loop.add_reader(descriptor, ended.cancel)
        # Cancelled, since a descriptor stays ready: a future is fulfilled once only.
        await asyncio.wait([ended])
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    process.poll()
