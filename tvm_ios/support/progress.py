"""Progress of a long call, as data: who wants to show it passes a function that takes it."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Self, TextIO

from tvm_ios.support.stage_gate import OpenGate, StageGate, StageNeed

__all__ = ["PhaseClock", "Progress", "ProgressListener", "StderrProgress"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A step of a long call, as its listener is told of it."""

    phase: str
    """``build``, ``search``, ``lower`` or ``compare``."""
    detail: str = ""
    done: int | None = None
    """Stages priced so far, in a search."""
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

    def say(self, detail: str, *, done: int | None = None) -> None:
        """Tell the listener where the current phase is."""
        if self._listener is not None:
            elapsed_s = time.monotonic() - self._begin
            self._listener(
                Progress(phase=self._phase, detail=detail, done=done, elapsed_s=elapsed_s)
            )


@dataclass(slots=True)
class StderrProgress:
    """Shows progress on standard error: one moving line on a terminal, else a line a phase.

    A context manager: leaving it ends the moving line.
    """

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    min_interval_s: float = 0.2
    _phase: str = ""
    _shown_at: float = 0.0
    _width: int = 0

    def __call__(self, progress: Progress) -> None:
        """Show one step; steps that come too fast are left out."""
        new_phase = progress.phase != self._phase
        now = time.monotonic()
        if not self.stream.isatty():
            if new_phase:
                self._phase = progress.phase
                print(_line(progress), file=self.stream, flush=True)
            return
        if not new_phase and now - self._shown_at < self.min_interval_s:
            return
        if new_phase:
            self.close()
        self._phase, self._shown_at = progress.phase, now
        # A line wider than the terminal would wrap, and the next one could not overwrite it.
        line = _line(progress)[: shutil.get_terminal_size().columns - 1]
        print("\r" + line.ljust(self._width), end="", file=self.stream, flush=True)
        self._width = len(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the moving line, if there is one."""
        if self._phase and self.stream.isatty():
            print(file=self.stream, flush=True)
        self._phase, self._width = "", 0


def _line(progress: Progress) -> str:
    count = "" if progress.done is None else f" {progress.done} stages priced,"
    detail = f" {progress.detail}" if progress.detail else ""
    return f"[{progress.elapsed_s:6.1f} s] {progress.phase}{count}{detail}"
