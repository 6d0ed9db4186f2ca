"""The table of jobs while they run: drawn anew on a terminal, else a line for what changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.status_table import status_line, status_table
from tvm_ios.support.messages import is_quiet
from tvm_ios.support.terminal import draws_on, live_on

if TYPE_CHECKING:
    from rich.live import Live

__all__ = ["LiveTable"]


@dataclass(slots=True)
class LiveTable:
    """Shows jobs on standard error, unless only results and errors are wanted."""

    status: Callable[[], Sequence[JobStatus]]
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    _live: Live | None = None
    _told: dict[str, tuple[JobState, int]] = field(default_factory=dict)
    """State and trials of each job as they were told last."""

    def show(self) -> None:
        """Say how they stand now."""
        if is_quiet():
            return
        with suppress(OSError):  # who has closed the stream wants no table; the jobs go on
            if draws_on(self.stream):
                self._draw()
            else:
                self._tell()

    def close(self) -> None:
        """Take the table away; who wants the last one prints it."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        elif not draws_on(self.stream):
            self.show()

    def _draw(self) -> None:
        from rich.text import Text  # noqa: PLC0415 - only where something is drawn

        if self._live is None:
            self._live = live_on(self.stream, transient=True)
        text = Text(status_table(self.status()).as_text(), no_wrap=True, overflow="crop")
        self._live.update(text, refresh=True)

    def _tell(self) -> None:
        for job in self.status():
            now = job.state, job.trials
            if self._told.get(job.name) != now:
                self._told[job.name] = now
                print(status_line(job), file=self.stream, flush=True)
