"""The time a call may take: what is left of it, what is set aside for its end, what was cut."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path

from tvm_ios.errors import OptionError, OutOfTimeError

__all__ = ["Reserve", "TimeBudget", "process_age_s"]

_NEXT_TO_NOTHING_S = 1e-9


class Reserve(Enum):
    """End of a call that time is set aside for."""

    LISTS = "lists"
    """Lists made of the schedule that was found."""
    RACE = "race"
    """The last race, with its contestants compiled."""
    FILE = "file"
    """The report, and the files that are linked and written."""


class TimeBudget:
    """Seconds that a whole call may take, counted from the construction; None for no limit.

    Necessary work is done, late or not. Optional work asks :meth:`allows` first, what measures ends
    when it :attr:`is_over`, and :meth:`cut` notes what was left out or cut short.

    Parameters
    ----------
    spent_s
        Seconds that the call had taken before.
    """

    def __init__(
        self,
        seconds: float | None = None,
        *,
        spent_s: float = 0.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        # `not >`, since NaN compares as false.
        if seconds is not None and (not number or not seconds > 0):
            raise OptionError(
                f"time_budget is {seconds!r}; give seconds above 0, or None for no limit"
            )
        self._clock_s = clock_s
        self._begin_s = clock_s() - spent_s
        self._seconds = math.inf if seconds is None else float(seconds)
        self._reserves_s: dict[Reserve, float] = {}
        self._least_s: float | None = None
        self._cuts: list[str] = []

    @classmethod
    def of(
        cls,
        given: TimeBudget | float | None,
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> TimeBudget:
        """The budget that was given, or a new one of as many seconds."""
        return given if isinstance(given, TimeBudget) else cls(given, clock_s=clock_s)

    @property
    def limit_s(self) -> float | None:
        """Seconds of the whole call; None without a limit."""
        return self._seconds if self.is_limited else None

    @property
    def is_limited(self) -> bool:
        """True if there is a limit."""
        return math.isfinite(self._seconds)

    @property
    def spent_s(self) -> float:
        """Seconds since the call began."""
        return self._clock_s() - self._begin_s

    @property
    def left_s(self) -> float:
        """Seconds that are left: infinite without a limit, below 0 when overdrawn."""
        return self._seconds - self.spent_s

    @property
    def spare_s(self) -> float:
        """Seconds that are left beyond what is set aside, below 0 when there are none."""
        return self.left_s - sum(self._reserves_s.values())

    @property
    def is_over(self) -> bool:
        """True if nothing is left but what is set aside."""
        return self.spare_s <= 0

    def allows(self, seconds: float, *, late_s: float = 0.0) -> bool:
        """True if optional work of a number of seconds would end in time, or so little late."""
        return seconds <= self.spare_s + late_s

    def require_spare(self, what: str) -> None:
        """Raise :class:`~tvm_ios.errors.OutOfTimeError` if it is over; ``what`` would be done."""
        if self.is_over:
            raise OutOfTimeError(f"there was no time left to {what}")

    def set_aside(self, end: Reserve, seconds: float) -> None:
        """Keep seconds for an end of the call, in place of what was kept for it; 0 frees them."""
        self._reserves_s[end] = seconds

    def kept_for_s(self, end: Reserve) -> float:
        """Seconds that are set aside for an end of the call."""
        return self._reserves_s.get(end, 0.0)

    def reach_least(self) -> None:
        """Note that only what is set aside has to follow; what comes in between is optional."""
        if self._least_s is None:
            self._least_s = self.spent_s + sum(self._reserves_s.values())

    def cut(self, what: str) -> None:
        """Note what was left out or cut short, in words for people."""
        if what not in self._cuts:
            self._cuts.append(what)

    def part(self, of: int) -> TimeBudget:
        """Budget, from now on, of one of some equal parts of the time to spare."""
        seconds = max(self.spare_s, _NEXT_TO_NOTHING_S) / of
        return TimeBudget(seconds, clock_s=self._clock_s)

    @property
    def cuts(self) -> tuple[str, ...]:
        """Lines on the steps that were left out or cut short, in order."""
        return tuple(self._cuts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines for people: the least time, each cut in order, and whether it was overdrawn."""
        notes = [f"for time_budget={self._seconds:g}, {what}" for what in self._cuts]
        if self.is_limited and self._least_s is not None:
            notes.insert(0, f"the least this call can take here is {self._least_s:.1f} s")
        if self.left_s < 0:
            notes.append(
                f"the call took {self.spent_s:.1f} s with time_budget={self._seconds:g}: preparing "
                "and compiling the model, and writing it, cannot be cut"
            )
        return tuple(notes)


def process_age_s() -> float:
    """Seconds since this process was started; 0 where the system does not tell.

    Python and its imports take a few tenths of a second before any clock of ours runs.
    """
    try:
        # The name of the program, in brackets, may have spaces.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        began_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began_s)
    except (OSError, ValueError, IndexError):
        return 0.0
