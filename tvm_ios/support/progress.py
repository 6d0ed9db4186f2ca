"""Progress of a long call, as data for a function that shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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
    model: Any = None
    """The :class:`~tvm_ios.compile.model.CompiledModel` so far, told once for each better one;
    :attr:`detail` says what it is. None in all other steps."""


ProgressListener = Callable[[Progress], None]


class PhaseClock:
    """Clock of the phases of a long call, which also reports to a listener.

    The call had taken ``spent_s`` seconds before.
    """

    def __init__(self, listener: ProgressListener | None = None, *, spent_s: float = 0.0) -> None:
        self._listener = listener
        self._begin = time.monotonic() - spent_s
        self._phase = ""
        self.phase_s: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time inside the context to a phase."""
        self._phase = name
        begin = time.monotonic()
        self.say("")
        try:
            yield
        finally:
            self.phase_s[name] = self.phase_s.get(name, 0.0) + time.monotonic() - begin

    def say(
        self,
        detail: str,
        *,
        done: int | None = None,
        unit: str = PRICED,
        share: float | None = None,
        best_ms: float | None = None,
        model: Any = None,
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
                    model=model,
                )
            )
