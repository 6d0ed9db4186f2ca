"""Progress of a long call, as data: who wants to show it passes a function that takes it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

__all__ = ["Progress", "ProgressListener", "StderrProgress"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One step of a long call."""

    phase: str
    """``prepare``, ``compile``, ``search``, ``compare`` …"""
    detail: str = ""
    done: int | None = None
    total: int | None = None
    """An estimate where the end is not known."""
    elapsed_s: float = 0.0
    """Since the call began."""


ProgressListener = Callable[[Progress], None]


@dataclass(slots=True)
class StderrProgress:
    """Shows progress on standard error: one moving line on a terminal, else a line a phase."""

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
        if new_phase and self._phase:
            print(file=self.stream)
            self._width = 0
        self._phase, self._shown_at = progress.phase, now
        line = _line(progress)
        print("\r" + line.ljust(self._width), end="", file=self.stream, flush=True)
        self._width = len(line)

    def close(self) -> None:
        """End the moving line."""
        if self._phase and self.stream.isatty():
            print(file=self.stream, flush=True)
        self._phase, self._width = "", 0


def _line(progress: Progress) -> str:
    count = "" if progress.done is None else f" {progress.done}"
    if count and progress.total is not None:
        count += f"/{progress.total}"
    detail = f" {progress.detail}" if progress.detail else ""
    return f"[{progress.elapsed_s:6.1f} s] {progress.phase}{count}{detail}"
