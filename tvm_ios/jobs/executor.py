"""The seam between a daemon and whoever computes: who decides, and who has the workers.

The local executor is a :class:`~tvm_ios.jobs.core.scheduler.Scheduler` and an agent of this
machine; the one of Ray is a :class:`~tvm_ios.jobs.core.cluster.Cluster` and an agent on each node.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tvm_ios.jobs.core.commands import Command
from tvm_ios.jobs.core.events import Event
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.order import JobOrder

__all__ = ["JobCore", "MakeWorkers", "Workers"]


class JobCore(Protocol):
    """The half of an executor that decides, and does nothing else."""

    @property
    def machine(self) -> Machine:
        """Cores and devices that the jobs share."""

    @property
    def wake_at(self) -> float | None:
        """Time to say `Tick`, if nothing else has happened; None: never."""

    @property
    def all_ended(self) -> bool:
        """Whether no job waits or runs."""

    def handle(self, event: Event, now: float) -> tuple[Command, ...]:
        """Take note of an event, and say what to do now."""

    def snapshot(self, now: float) -> tuple[JobStatus, ...]:
        """Statuses of all jobs, in the order of submission."""


class Workers(ABC):
    """The half of an executor that has the workers: told what to do, it says what happens.

    ``obey`` has what to do about each kind of command.
    """

    def __init__(self, obey: Mapping[type, Callable[[Any], None]]) -> None:
        self._obey = obey
        self._orders: dict[str, JobOrder] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, order: JobOrder) -> None:
        """Take over what `StartWorker` of this name will be about."""
        self._orders[order.spec.name] = order

    def obey(self, command: Command) -> None:
        """Begin to do what is decided; commands for others are passed over."""
        obey = self._obey.get(type(command))
        if obey is not None:
            obey(command)

    @abstractmethod
    async def close(self) -> None:
        """End all workers. Nothing is told of it."""

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


MakeWorkers = Callable[[Callable[[Event], None], Callable[[Exception], None]], Workers]
"""Maker of workers in a running event loop. Its first argument is told each event there, but never
from inside `obey`; its second is told why the workers cannot go on, if that comes to pass."""
