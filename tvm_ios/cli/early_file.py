"""The output of ``tvm-ios tune`` before its end: each better model takes the file's place.

A file costs a link, so none is written for a call that is over in a moment, nor the next one too
soon after the last.
"""

from __future__ import annotations

import logging
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tvm_ios.errors import ArtifactError
from tvm_ios.support.messages import is_quiet
from tvm_ios.support.printable import printable
from tvm_ios.support.progress import Progress, ProgressListener
from tvm_ios.support.time_budget import Reserve, TimeBudget

__all__ = ["EarlyFile"]

_LOG = logging.getLogger(__name__)

SOON_S = 4.0
"""Seconds that a call takes at least before a file is written: what ends sooner needs none."""
WRITING_SHARE = 10
"""Times as long as writing takes that passes before the next file, and that a time budget has to
spare: at most a tenth is writing."""
_NEAR_THE_END = ("lower", "compare")
"""Phases of the last race, in which no model that waits is written: the result is near."""
_AGAIN = 1.2
"""Time of the end of a call, which writes and copies a file, over that of one early file."""


class EarlyFile:
    """Listener of a call that writes its models, and shows its progress.

    Parameters
    ----------
    output
        Path of the file, which is replaced by one rename.
    shown
        Progress that steps go on to.
    budget
        Time of the call, counted from the start of the process.
    """

    def __init__(
        self,
        output: Path,
        shown: ProgressListener,
        budget: TimeBudget,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._output = output
        self._shown = shown
        self._budget = budget
        self._clock_s = clock_s
        self._waiting: tuple[Any, str] | None = None
        """Model that is better than the file, and what it is."""
        self._written = ""
        """Text that tells what the model in the file is; empty before the first."""
        self._next_s = 0.0
        """Time before which no file is written."""

    def __call__(self, progress: Progress) -> None:
        """Show a step, and write its model or the one that waits, where that pays."""
        self._shown(progress)
        if progress.model is not None:
            self._waiting = progress.model, progress.detail
        elif progress.phase in _NEAR_THE_END:
            return
        late = self._clock_s() >= self._next_s and self._budget.spent_s >= SOON_S
        needed_s = WRITING_SHARE * self._budget.kept_for_s(Reserve.FILE)
        if self._waiting is not None and late and self._budget.allows(needed_s):
            self._write(*self._waiting)

    @contextmanager
    def left_behind(self) -> Iterator[None]:
        """Context of the call: the file has its best model where it is interrupted or fails."""
        try:
            yield
        except (KeyboardInterrupt, Exception) as error:
            # An error may be what came of an interrupt, and the models so far are as good as ever.
            if self._waiting is not None:
                self._write(*self._waiting)
            if self._written or isinstance(error, KeyboardInterrupt):
                error.add_note(self._told())
            raise

    def _told(self) -> str:
        if not self._written:
            return f"{self._output} is as it was: there was no model yet"
        file = shlex.quote(str(self._output))
        return (
            f"{file} has the best model so far ({self._written}; tvm-ios show {file}); the same "
            "command goes on from what was measured"
        )

    def _write(self, model: Any, what: str) -> None:
        begin_s = self._clock_s()
        try:
            model.export_library(self._output)
        except ArtifactError as error:  # the end of the call will say so as well
            _LOG.warning("no early file was written: %s", error)
            self._waiting = None
            self._next_s = float("inf")
            return
        self._waiting = None  # only now: where writing was interrupted, it still waits
        took_s = self._clock_s() - begin_s
        self._next_s = self._clock_s() + WRITING_SHARE * took_s
        self._budget.set_aside(Reserve.FILE, _AGAIN * took_s)
        which, more = ("a better", "") if self._written else ("a first", "; better ones replace it")
        self._written = what
        after = f"after {self._budget.spent_s:.1f} s"
        if not is_quiet():
            line = f"{after}: {which} model in {self._output} ({what}){more}"
            print(printable(line), file=sys.stderr, flush=True)
