"""Progress on standard error: a bar where a person looks on, plain lines everywhere else.

A bar is drawn by rich, which is loaded only at the first step to draw, and without a thread: a
thread that draws would disturb measurements.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TextIO

from tvm_ios.support.messages import is_quiet
from tvm_ios.support.printable import PrintableStream, printable
from tvm_ios.support.progress import Progress

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

__all__ = ["StderrProgress", "draws_on", "live_on"]

BAR_COLUMNS = 16
MOST_RISE = 1.2
"""Factor over the least time left that was shown in a phase up to which more is shown: an estimate
that turns out far too low is withdrawn, not raised."""
_DUMB = ("", "dumb", "unknown")


def draws_on(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """True if a moving picture may be drawn on a stream.

    The stream must be a terminal that can move its cursor. ``NO_COLOR`` asks for plain text, as
    does ``CI``, which programs set that keep the output.
    """
    plain = environment.get("NO_COLOR") or environment.get("CI")
    return stream.isatty() and environment.get("TERM", "") not in _DUMB and not plain


def live_on(stream: TextIO, *, transient: bool = False) -> Live:
    """A picture on a terminal, drawn on demand; other output goes above it.

    A transient picture is removed at the end.
    """
    from rich.console import Console  # noqa: PLC0415 - only where something is drawn
    from rich.live import Live  # noqa: PLC0415

    raw = stream.raw if isinstance(stream, PrintableStream) else stream
    console = Console(file=raw, force_terminal=True, highlight=False)
    live = Live(
        console=console,
        auto_refresh=False,
        transient=transient,
        redirect_stdout=False,  # results stay results
        redirect_stderr=stream is sys.stderr,
        vertical_overflow="crop",
    )
    live.start()
    console.show_cursor()  # whoever is killed leaves a terminal with a cursor
    return live


@dataclass(slots=True)
class StderrProgress:
    """Shows progress on standard error: a bar on a terminal, else a line a phase.

    Shows nothing where only results and errors are wanted. A context manager, which ends the bar.
    """

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    min_interval_s: float = 0.2
    _live: Live | None = None
    _phase: str = ""
    _phase_began_s: float = 0.0
    """Begin of the phase in seconds, on the clock of the progress."""
    _least_left_s: float = math.inf
    """Least time left that was shown in the phase, in seconds."""
    _shown_at: float = 0.0

    def __call__(self, progress: Progress) -> None:
        """Show one step; steps that come too fast are left out."""
        if is_quiet():
            return
        is_new = progress.phase != self._phase
        if not draws_on(self.stream):
            if is_new:
                print(_line(progress), file=self.stream, flush=True)
            self._phase = progress.phase
            return
        now = time.monotonic()
        if not is_new and now - self._shown_at < self.min_interval_s:
            return
        if is_new:
            self.close()
            self._phase, self._phase_began_s = progress.phase, progress.elapsed_s
            self._least_left_s = math.inf
            self._live = live_on(self.stream)
        self._shown_at = now
        if self._live is not None:
            self._live.update(_bar(progress, self._left(progress)), refresh=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _left(self, progress: Progress) -> str:
        """Share and time left of the phase; the time only as long as its estimates hold."""
        share = progress.share
        if not share:
            return ""
        left_s = round((progress.elapsed_s - self._phase_began_s) * (1 - share) / share)
        if left_s < 1 or left_s > MOST_RISE * self._least_left_s:
            return f"{share:4.0%}"
        self._least_left_s = min(left_s, self._least_left_s)
        return f"{share:4.0%}, {left_s // 60}:{left_s % 60:02d} left"

    def close(self) -> None:
        """End the bar, if there is one."""
        if self._live is not None:
            self._live.stop()
        self._phase, self._live = "", None


def _line(progress: Progress) -> str:
    return f"[{progress.elapsed_s:6.1f} s] {progress.phase} {_told(progress)}".rstrip()


def _told(progress: Progress) -> str:
    told = [] if progress.done is None else [f"{progress.done} {progress.unit}"]
    if progress.best_ms is not None:
        told.append(f"best {progress.best_ms:.3f} ms")
    return ", ".join([*told, printable(progress.detail)] if progress.detail else told)


def _bar(progress: Progress, left: str) -> RenderableType:
    """The step as a line that fits the terminal: the bar stays, and the end is cut."""
    from rich.progress_bar import ProgressBar  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    share = progress.share or 0.0
    row = Table.grid(padding=(0, 1), expand=True)
    row.add_column(no_wrap=True)
    row.add_column(width=BAR_COLUMNS)
    row.add_column(no_wrap=True)
    row.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    bar = ProgressBar(total=1.0, completed=share, width=BAR_COLUMNS, pulse=progress.share is None)
    head = f"{progress.phase} {progress.elapsed_s:.1f} s"
    row.add_row(Text(head), bar, Text(left), Text(_told(progress)))
    return row
