"""Progress of a long call, as data for a function that shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from tvm_ios.support.stage_gate import OpenGate, StageGate, StageNeed

__all__ = ["PhaseClock", "Progress", "ProgressListener"]

PRICED = "stages priced"
"""Unit that most calls count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A step of a long call, as its listener gets it."""

    phase: str
    """Name of the phase: ``build``, ``search``, ``lower`` or ``compare``."""
    detail: str = ""
    done: int | None = None
    """Number of things of :attr:`unit` so far."""
    unit: str = PRICED
    share: float | None = None
    """Finished share of the phase, from 0 to 1; None where nobody knows."""
    best_ms: float | None = None
    """Predicted latency of the best schedule so far, in milliseconds."""
    elapsed_s: float = 0.0
    """Seconds since the call began."""


ProgressListener = Callable[[Progress], None]


class PhaseClock:
    """Clock of the phases of a long call, which also reports to a listener.

    Phases that are stages of a job pass the gate, which is open where omitted.
    """

    def __init__(
        self, listener: ProgressListener | None = None, gate: StageGate | None = None
    ) -> None:
        self.gate = gate or OpenGate()
        self._listener = listener
        self._begin = time.monotonic()
        self._phase = ""
        self.phase_s: dict[str, float] = {}
        self.address = ""
        """Address of the device of the present stage, as ``GrantedStage.address``; empty without a
        device, or for one of this machine."""

    @contextmanager
    def phase(self, name: str, need: StageNeed | None = None) -> Iterator[None]:
        """Count the time inside the context to a phase.

        ``need`` has the needs of the phase as a stage of a job, named after the phase where it has
        no task. It begins when the gate lets it, and waiting does not count. None is for a phase
        with stages inside.
        """
        stage = self.gate.stage(replace(need, task=need.task or name)) if need else nullcontext()
        with stage as granted:
            self._phase = name
            self.address = granted.address if granted else ""
            begin = time.monotonic()
            self.say("")
            try:
                yield
            finally:
                self.address = ""
                self.phase_s[name] = self.phase_s.get(name, 0.0) + time.monotonic() - begin

    def say(
        self,
        detail: str,
        *,
        done: int | None = None,
        unit: str = PRICED,
        share: float | None = None,
        best_ms: float | None = None,
    ) -> None:
        """Tell the listener about the current phase; arguments as in :class:`Progress`."""
        if self._listener is not None:
            self._listener(
                Progress(
                    phase=self._phase,
                    detail=detail,
                    done=done,
                    unit=unit,
                    share=share,
                    best_ms=best_ms,
                    elapsed_s=time.monotonic() - self._begin,
                )
            )
