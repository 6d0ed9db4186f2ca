"""The table of jobs while they run: drawn anew on a terminal, else a line for what changed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.status_table import status_line, status_table

__all__ = ["LiveTable"]

_UP = "\x1b[{}F\x1b[J"
"""Moves the cursor up so many lines, and clears what is below."""


@dataclass(slots=True)
class LiveTable:
    """Shows jobs on standard error."""

    status: Callable[[], Sequence[JobStatus]]
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    _drawn: int = 0
    """Lines that stand on the terminal."""
    _told: dict[str, tuple[JobState, int]] = field(default_factory=dict)
    """State and trials of each job as they were told last."""

    def show(self) -> None:
        """Say how they stand now."""
        if self.stream.isatty():
            self._draw()
        else:
            self._tell()

    def close(self) -> None:
        """Take the table away; who wants the last one prints it."""
        if not self.stream.isatty():
            self._tell()
        elif self._drawn:
            print(_UP.format(self._drawn), end="", file=self.stream, flush=True)
            self._drawn = 0

    def _draw(self) -> None:
        terminal = shutil.get_terminal_size()
        # A line wider than the terminal would wrap, and a table higher than it could not go.
        lines = status_table(self.status()).as_text().splitlines()[: terminal.lines - 1]
        before = _UP.format(self._drawn) if self._drawn else ""
        text = "".join(f"{line[: terminal.columns - 1]}\n" for line in lines)
        print(before + text, end="", file=self.stream, flush=True)
        self._drawn = len(lines)

    def _tell(self) -> None:
        for job in self.status():
            now = job.state, job.trials
            if self._told.get(job.name) != now:
                self._told[job.name] = now
                print(status_line(job), file=self.stream, flush=True)
