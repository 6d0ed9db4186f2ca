"""A gate that passes everything on to another one, and counts how long stages wait and measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tvm_ios.support.stage_gate import GrantedStage, JobProgress, StageGate, StageNeed

__all__ = ["TimedGate"]


@dataclass(slots=True, kw_only=True)
class TimedGate:
    """A gate in front of another one, from now on."""

    inner: StageGate
    """Who lets stages pass."""
    clock_s: Callable[[], float] = time.monotonic
    """Tells the time, in seconds."""
    stages: int = 0
    """Stages that have begun."""
    measured_s: float = 0.0
    """Seconds of all stages that had the device."""
    _begin_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin to count."""
        self._begin_s = self.clock_s()

    @property
    def most_cores(self) -> int:
        """Cores that a stage gets at most."""
        return self.inner.most_cores

    @property
    def waited_s(self) -> float:
        """Seconds that its stages have waited for others until now, all together."""
        return self.inner.waited_s

    @property
    def utilisation(self) -> float:
        """Share of the time until now in which a stage had the device, from 0 to 1."""
        seconds = self.clock_s() - self._begin_s
        return self.measured_s / seconds if seconds else 0.0

    @contextmanager
    def stage(self, need: StageNeed) -> Iterator[GrantedStage]:
        """Wait until a stage may begin, and count it."""
        with self.inner.stage(need) as granted:
            self.stages += 1
            begin_s = self.clock_s()
            try:
                yield granted
            finally:
                if need.kind.measures:
                    self.measured_s += self.clock_s() - begin_s

    def tell(self, progress: JobProgress) -> None:
        """Say how far the job is."""
        self.inner.tell(progress)
