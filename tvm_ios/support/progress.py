"""Progress of a long call, as data: who wants to show it passes a function that takes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from tvm_ios.support.stage_gate import OpenGate, StageGate, StageNeed

__all__ = ["PhaseClock", "Progress", "ProgressListener"]

PRICED = "stages priced"
"""What most calls count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A step of a long call, as its listener is told of it."""

    phase: str
    """``build``, ``search``, ``lower`` or ``compare``."""
    detail: str = ""
    done: int | None = None
    """Things of :attr:`unit` so far."""
    unit: str = PRICED
    share: float | None = None
    """How much of the phase is done, from 0 to 1; None where nobody knows."""
    best_ms: float | None = None
    """Predicted latency of the best that was found so far, in milliseconds."""
    elapsed_s: float = 0.0
    """Since the call began."""


ProgressListener = Callable[[Progress], None]


class PhaseClock:
    """Seconds of each phase of a long call, and word to whoever listens.

    Parameters
    ----------
    listener
        Told at the start of a phase and whenever :meth:`say` is called; None for silence.
    gate
        What phases that are stages of a job pass before they begin; an open one where omitted.
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
        """Where the present stage was granted its device, as ``GrantedStage.address``; empty where
        it was granted none, or one of this machine."""

    @contextmanager
    def phase(self, name: str, need: StageNeed | None = None) -> Iterator[None]:
        """Count the time inside to this phase.

        Parameters
        ----------
        need
            What it needs as a stage of a job, named after the phase where it has no task; it begins
            once the gate lets it, and waiting does not count. None where it has stages inside.
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
        """Tell the listener where the current phase is; arguments as in :class:`Progress`."""
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
