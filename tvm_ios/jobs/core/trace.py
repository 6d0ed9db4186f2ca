"""A trace of stages: who had which cores and which device when, and how long each had waited.

A simulation and an executor fill it with the same events and commands, so both are read alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tvm_ios.jobs.core.commands import Command, GrantLease, JobChanged, RePinLease
from tvm_ios.jobs.core.events import Event, JobEnded, StageReleased, StageRequested, WorkerDied
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.support.stage_gate import StageNeed

__all__ = ["Span", "Stay", "Trace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A core that a stage had without a break."""

    core: int
    since_s: float
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A stage, from the moment it was asked for to its end."""

    job: str
    epoch: int
    need: StageNeed
    device: str
    """Empty for stages that need none: they waited for cores, the others for their device."""
    asked_s: float
    granted_s: float
    ended_s: float | None = None
    """Time of the end; None: the stage computes still."""
    finished: bool = True
    """False where it was cut short: its worker died, or its device was lost."""
    places: tuple[tuple[float, tuple[int, ...]], ...]
    """The cores that it had, and since when, in seconds."""

    @property
    def waited_s(self) -> float:
        """Seconds at the gate."""
        return self.granted_s - self.asked_s

    def end_s(self, now_s: float) -> float:
        """Time of the stage's end; ``now_s`` where it computes still."""
        return now_s if self.ended_s is None else self.ended_s

    def stays(self, now_s: float = 0.0) -> tuple[Stay, ...]:
        """Cores that the stage had, and when; what computes still has them until ``now_s``."""
        ends = [*(since_s for since_s, _ in self.places[1:]), self.end_s(now_s)]
        return tuple(
            Stay(core=core, since_s=since_s, until_s=until_s)
            for (since_s, cores), until_s in zip(self.places, ends, strict=True)
            for core in cores
        )


@dataclass(slots=True)
class Trace:
    """A run, as it goes on. Adding to it takes constant time."""

    ended: list[Span] = field(default_factory=list)
    """Stages that are over, in the order of their ends."""
    _asked: dict[str, float] = field(default_factory=dict)
    _open: dict[str, Span] = field(default_factory=dict)

    def add(self, event: Event, commands: Iterable[Command], now: float) -> None:
        """Take note of an event and of what the scheduler said to it."""
        if isinstance(event, StageRequested):
            self._asked[event.job] = now
        elif isinstance(event, StageReleased):
            span = self._open.get(event.job)
            if span is not None and span.epoch == event.epoch:
                self._close(event.job, now, finished=event.finished)
                # A batch that has lost its device waits on, as old as it is.
                self._asked[event.job] = span.asked_s
        elif isinstance(event, WorkerDied | JobEnded):
            self._close(event.job, now, finished=False)
        for command in commands:
            self._follow(command, now)

    def _follow(self, command: Command, now: float) -> None:
        if isinstance(command, GrantLease):
            lease = command.lease
            self._open[lease.job] = Span(
                job=lease.job,
                epoch=lease.epoch,
                need=lease.need,
                device=lease.device,
                asked_s=self._asked.get(lease.job, now),
                granted_s=now,
                places=((now, lease.cores),),
            )
        elif isinstance(command, RePinLease) and command.job in self._open:
            span = self._open[command.job]
            places = (*span.places, (now, command.cores))
            self._open[command.job] = replace(span, places=places)
        elif isinstance(command, JobChanged) and command.state is JobState.WAITING:
            self._close(command.job, now, finished=False)  # its node was lost

    def _close(self, job: str, now: float, *, finished: bool) -> None:
        span = self._open.pop(job, None)
        if span is not None:
            self.ended.append(replace(span, ended_s=now, finished=finished))

    @property
    def spans(self) -> tuple[Span, ...]:
        """Stages in the order of their ends, then those that compute still."""
        return (*self.ended, *self._open.values())
