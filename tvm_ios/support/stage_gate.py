"""Stages of a tuning job, and the gate before each, which decides who computes where and when.

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
    """Kind of work of a job between two gates."""

    PREPARE = "prepare"
    """Load and prepare a model, extract its tasks, compile it."""
    SEARCH = "search"
    """Pick the next candidates of a task."""
    BUILD = "build"
    """Compile candidates of a task."""
    PROFILE = "profile"
    """Run candidates, stages or networks on the device, with device and cores undisturbed."""
    UPDATE = "update"
    """Train the cost model of a tuner with measurements."""

    @property
    def measures(self) -> bool:
        """True if other work on the same device or core would distort the result."""
        return self is StageKind.PROFILE


@dataclass(frozen=True, slots=True, kw_only=True)
class StageNeed:
    """Needs of a stage before it may begin: cores, and facts for the scheduler."""

    kind: StageKind
    least_cores: int = 1
    """Fewest cores with which the stage begins."""
    most_cores: int = 1
    """Most cores that the stage can use."""
    task: str = ""
    """Name of the task; stages of one kind and task take about the same time."""
    estimate_s: float | None = None
    """Estimated seconds on one core, where the job knows more than past stages show."""

    @classmethod
    def to_prepare(cls, most_cores: int, task: str = "") -> StageNeed:
        """Need of a stage that compiles and measures nothing."""
        return cls(kind=StageKind.PREPARE, most_cores=most_cores, task=task)

    @classmethod
    def to_profile(cls, cores: int, task: str = "") -> StageNeed:
        """Need of a measurement on a number of cores."""
        return cls(kind=StageKind.PROFILE, least_cores=cores, most_cores=cores, task=task)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedStage:
    """Cores and device that a stage may use."""

    cores: tuple[int, ...]
    """Numbers of the processors, as ``os.sched_setaffinity`` takes them; may change while a stage
    that does not measure runs."""
    device: str = ""
    """Name of the stage's own device; empty for stages that need none."""
    address: str = ""
    """Address of the device, ``host:port:key`` of an RPC tracker; empty in this process."""
    second_try: bool = False
    """True tries a candidate that dies with its worker once more, as others may kill a worker;
    False makes the first death a failure of the candidate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress:
    """State of a job, reported after its records are written and before its device is free."""

    trials: int
    """Number of candidates measured so far."""
    total: int | None = None
    """Number of candidates to measure; None where the job does not know."""
    best_ms: float | None = None
    """Milliseconds of the network with the best kernels so far, about."""
    stage: str = ""
    """Current work of the job, in words."""


class StageGate(Protocol):
    """Gate that a job passes before each of its stages."""

    @property
    def most_cores(self) -> int:
        """Largest number of cores of a stage.

        AutoTVM measures that many candidates a batch, and auto_scheduler twice as many.
        """

    @property
    def waited_s(self) -> float:
        """Seconds that the job's stages have waited for others so far, all together."""

    def stage(self, need: StageNeed) -> AbstractContextManager[GrantedStage]:
        """Context of a stage: waits until the stage may begin, ends it at exit. Stages do not nest.

        A :class:`~tvm_ios.errors.DeviceLostError` goes through the context when the stage's device
        no longer answers; the job then asks for another one, or the same.
        """

    def tell(self, progress: JobProgress) -> None:
        """Report the state of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGate:
    """Gate that lets every stage pass at once, on all usable cores."""

    most_cores: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    """Number of cores to count on: fewer than are usable where a cgroup has a quota."""
    waited_s: float = 0.0
    """Seconds of waiting, always 0."""

    @contextmanager
    def stage(self, need: StageNeed) -> Iterator[GrantedStage]:
        """Begin the stage at once."""
        del need
        yield GrantedStage(cores=tuple(sorted(os.sched_getaffinity(0))))

    def tell(self, progress: JobProgress) -> None:
        """Ignore the report."""


def clock_at_work(gate: StageGate) -> Callable[[], float]:
    """Clock in seconds that stands still while a job waits at its gate.

    It counts budgets: a job loses nothing because others have the device.
    """
    return lambda: time.monotonic() - gate.waited_s


_AROUND: ContextVar[StageGate] = ContextVar("gate_around")


def gate_around(default: StageGate) -> StageGate:
    """The gate of the innermost :func:`gated_by` around this call; the default outside of all."""
    return _AROUND.get(default)


@contextmanager
def gated_by(gate: StageGate) -> Iterator[None]:
    """Context in which calls of ``tune`` pass a gate before each of their stages.

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
