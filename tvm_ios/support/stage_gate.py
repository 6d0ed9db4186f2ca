"""Stages of a tuning job, and the gate it passes before each: who may compute where, and when.

A job that tunes by itself finds the gate open. One of many jobs on shared machines asks a scheduler
at the gate, and goes on when cores and device are its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

__all__ = [
    "GrantedStage",
    "JobProgress",
    "OpenGate",
    "StageGate",
    "StageKind",
    "StageNeed",
    "clock_at_work",
    "gate_around",
    "gated_by",
]


class StageKind(Enum):
    """What a job does between two gates."""

    PREPARE = "prepare"
    """Loads and prepares a model, extracts its tasks, compiles it."""
    SEARCH = "search"
    """Picks the next candidates of a task."""
    BUILD = "build"
    """Compiles candidates."""
    PROFILE = "profile"
    """Runs candidates, stages or networks on the device: needs it, and its cores, undisturbed."""
    UPDATE = "update"
    """Trains the cost model of a tuner with what was measured."""

    @property
    def measures(self) -> bool:
        """Whether anything else on the same device or core would distort what it finds."""
        return self is StageKind.PROFILE


@dataclass(frozen=True, slots=True, kw_only=True)
class StageNeed:
    """What a stage needs before it may begin."""

    kind: StageKind
    least_cores: int = 1
    """Cores without which it does not begin."""
    most_cores: int = 1
    """Cores that it can make use of."""
    task: str = ""
    """What it works on; stages of one kind and task take about the same time."""
    estimate_s: float | None = None
    """About how long it takes on one core, where the job knows better than its past does."""

    @classmethod
    def to_prepare(cls, most_cores: int, task: str = "") -> StageNeed:
        """The need of what compiles and measures nothing."""
        return cls(kind=StageKind.PREPARE, most_cores=most_cores, task=task)

    @classmethod
    def to_profile(cls, cores: int, task: str = "") -> StageNeed:
        """The need of a measurement that runs on so many cores."""
        return cls(kind=StageKind.PROFILE, least_cores=cores, most_cores=cores, task=task)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedStage:
    """Where a stage may run."""

    cores: tuple[int, ...]
    """Numbers of the processors, as ``os.sched_setaffinity`` takes them; may change while a
    stage that does not measure runs."""
    device: str = ""
    """Name of the device that is the stage's own; empty for stages that need none."""
    address: str = ""
    """Where the device is reached, ``host:port:key`` of an RPC tracker; empty in this process."""
    second_try: bool = False
    """Whether a candidate that dies with its worker is tried once more, as where others may kill a
    worker; without it the first death is a failure of the candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """How far a job is, told after its records are written and before its device is free."""

    trials: int
    """Candidates measured so far."""
    total: int | None = None
    """Candidates it means to measure; None where it does not know."""
    best_ms: float | None = None
    """About how long the network takes with the best kernels so far, in milliseconds."""
    stage: str = ""
    """What it is at, in words."""


class StageGate(Protocol):
    """What a job passes before each of its stages."""

    @property
    def most_cores(self) -> int:
        """Cores that a stage gets at most.

        AutoTVM measures so many candidates a batch, and auto_scheduler twice as many.
        """

    @property
    def waited_s(self) -> float:
        """Seconds that its stages have waited for others until now, all together."""

    def stage(self, need: StageNeed) -> AbstractContextManager[GrantedStage]:
        """Wait until a stage may begin; it ends with the context. Stages do not nest.

        A :class:`~tvm_ios.errors.DeviceLostError` goes through the context of a stage whose device
        no longer answers; the job then asks for another, or for the same one.
        """

    def tell(self, progress: JobProgress) -> None:
        """Say how far the job is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGate:
    """A gate that lets everything pass at once, on all usable cores."""

    most_cores: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    """Cores to count on: fewer than are usable where a cgroup has a quota."""
    waited_s: float = 0.0
    """Nobody waits."""

    @contextmanager
    def stage(self, need: StageNeed) -> Iterator[GrantedStage]:
        """Begin the stage at once."""
        del need
        yield GrantedStage(cores=tuple(sorted(os.sched_getaffinity(0))))

    def tell(self, progress: JobProgress) -> None:
        """Tell nobody."""


def clock_at_work(gate: StageGate) -> Callable[[], float]:
    """A clock in seconds that stands still while a job waits at its gate.

    Budgets are counted by it: a job loses nothing because others have the device.
    """
    return lambda: time.monotonic() - gate.waited_s


_AROUND: ContextVar[StageGate] = ContextVar("gate_around")


def gate_around(default: StageGate) -> StageGate:
    """The gate of the innermost :func:`gated_by` around this call; the default outside of all."""
    return _AROUND.get(default)


@contextmanager
def gated_by(gate: StageGate) -> Iterator[None]:
    """Inside, calls of ``tune`` pass this gate before each of their stages.

    Examples
    --------
    >>> gate = OpenGate()
    >>> with gated_by(gate):
    ...     gate_around(OpenGate()) is gate
    True
    """
    token = _AROUND.set(gate)
    try:
        yield
    finally:
        _AROUND.reset(token)
