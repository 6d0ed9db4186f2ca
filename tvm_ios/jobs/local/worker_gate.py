"""The gate inside a worker: it asks whoever started the worker, and blocks until it is answered.

Events go out and commands come in as lines of JSON on one socket. Nothing is pinned here: the other
side has pinned this process, and all that it started, before it says that a stage may begin.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tvm_ios.errors import DeviceLostError
from tvm_ios.jobs.core.commands import GrantLease, RevokeLease
from tvm_ios.jobs.core.events import (
    DeviceLost,
    JobEnded,
    ProgressTold,
    StageReleased,
    StageRequested,
)
from tvm_ios.jobs.core.resources import Lease
from tvm_ios.jobs.order import JobOrder
from tvm_ios.support.json_nouns import from_json, to_json
from tvm_ios.support.stage_gate import GrantedStage, JobProgress, StageNeed

__all__ = ["Begin", "FromWorker", "ToWorker", "WorkerGate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The first line that a worker gets: what it is to do, and where."""

    order: JobOrder
    folder: str
    """The job's own, for what it leaves behind."""
    cores: tuple[int, ...]
    """Cores that a stage may get."""


FromWorker = StageRequested | ProgressTold | StageReleased | DeviceLost | JobEnded
ToWorker = Begin | GrantLease | RevokeLease


@dataclass(slots=True)
class WorkerGate:
    """A gate whose other side is a scheduler, which other jobs ask, too."""

    line: socket.socket
    job: str = ""
    cores: tuple[int, ...] = ()
    """Cores that a stage may get; the worker has them all between two stages."""
    told: JobProgress = field(default_factory=lambda: JobProgress(trials=0))
    """The progress that was told last."""
    waited_s: float = 0.0
    """Seconds that its stages have waited for a lease, all together."""
    _lease: Lease | None = None
    _revoked: int = 0
    """The latest epoch whose device was lost."""
    _again: StageNeed | None = None
    """Need that waits anew since its device was lost, and that the job has not asked for again."""
    _partial: bytes = b""
    _heard: deque[ToWorker] = field(default_factory=deque)

    def begin(self) -> Begin:
        """Read what is to be done."""
        first = self._next()
        if not isinstance(first, Begin):
            raise ConnectionError(f"a worker is told first what to do, not {first}")
        self.job, self.cores = first.order.spec.name, first.cores
        return first

    @property
    def most_cores(self) -> int:
        """Cores that a stage gets at most."""
        return len(self.cores)

    @contextmanager
    def stage(self, need: StageNeed) -> Iterator[GrantedStage]:
        """Wait for a lease; it is given back with the context, whatever happens inside."""
        asked = time.monotonic()
        lease = self._lease = self._granted(need)
        begin = time.monotonic()
        self.waited_s += begin - asked
        try:
            yield replace(lease.granted, second_try=True)
        except DeviceLostError:
            self._release(StageReleased(job=self.job, epoch=lease.epoch, finished=False))
            self._again = need
            raise
        except BaseException:
            self._release(StageReleased(job=self.job, epoch=lease.epoch))
            raise
        seconds = time.monotonic() - begin
        self._release(StageReleased(job=self.job, epoch=lease.epoch, seconds=seconds))

    def tell(self, progress: JobProgress) -> None:
        """Say how far the job is."""
        self.told = progress
        self._say(ProgressTold(self.job, progress))

    def end(self, reason: str = "") -> None:
        """Say that the job is done, or why it failed."""
        self._say(JobEnded(self.job, reason))

    def revoked(self) -> bool:
        """Whether the device of the present stage was lost."""
        while select.select([self.line], [], [], 0)[0]:
            self._take(self._receive())
        return self._lease is not None and self._revoked == self._lease.epoch

    def _granted(self, need: StageNeed) -> Lease:
        again, self._again = self._again, None
        if again != need:
            if again is not None:
                # The scheduler knows one request of a job: this one has to come first.
                lost = self._await_lease()
                self._say(StageReleased(job=self.job, epoch=lost.epoch))
            self._say(StageRequested(self.job, need))
        return self._await_lease()

    def _await_lease(self) -> Lease:
        while True:
            command = self._next()
            if isinstance(command, GrantLease):
                return command.lease

    def _release(self, event: StageReleased) -> None:
        lease, self._lease = self._lease, None
        # What runs between two stages may count cores, and computes next to nothing.
        os.sched_setaffinity(0, self.cores)
        if not event.finished and lease is not None and lease.device:
            # The loss is told first, since the release would free the device for another grant.
            self._say(DeviceLost(lease.device))
        self._say(event)

    def _say(self, event: FromWorker) -> None:
        try:
            self.line.sendall(to_json(FromWorker, event).encode() + b"\n")
        except OSError:
            self._leave()

    # ---- Lines ----

    def _next(self) -> ToWorker:
        while not self._heard:
            self._take(self._receive())
        return self._heard.popleft()

    def _take(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            command = from_json(ToWorker, line.decode(), "a command")
            if isinstance(command, RevokeLease):
                self._revoked = command.epoch
            else:
                self._heard.append(command)

    def _receive(self) -> list[bytes]:
        received = self.line.recv(1 << 16)
        if not received:
            self._leave()
        *lines, self._partial = (self._partial + received).split(b"\n")
        return lines

    @staticmethod
    def _leave() -> None:
        """End at once: nobody is left who could grant anything, and the records are written."""
        os._exit(1)
