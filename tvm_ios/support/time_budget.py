"""The time a call may take, and what was left out to keep to it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from tvm_ios.errors import OptionError

__all__ = ["TimeBudget"]

_NEXT_TO_NOTHING_S = 1e-9


class TimeBudget:
    """Seconds that a whole call may take, counted from here.

    What has to be done is done, late or not. What can be left out asks :meth:`allows` first, and
    what was left out or cut short is told by :meth:`cut`.

    Parameters
    ----------
    seconds
        How long, from now on; None for no limit.
    clock_s
        Tells the time, in seconds.

    Raises
    ------
    OptionError
        If the seconds are no number above 0.
    """

    def __init__(
        self, seconds: float | None = None, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if seconds is not None and (not number or not seconds > 0):
            raise OptionError(
                f"time_budget is {seconds!r}; give seconds above 0, or None for no limit"
            )
        self._clock_s = clock_s
        self._begin_s = clock_s()
        self._seconds = math.inf if seconds is None else float(seconds)
        self._cuts: list[str] = []

    @property
    def spent_s(self) -> float:
        """Seconds since the call began."""
        return self._clock_s() - self._begin_s

    @property
    def left_s(self) -> float:
        """Seconds that are left: infinite without a limit, below 0 when they are overdrawn."""
        return self._seconds - self.spent_s

    def allows(self, seconds: float) -> bool:
        """True if something that takes so many seconds would end in time."""
        return seconds <= self.left_s

    def cut(self, what: str) -> None:
        """Remember what was left out or cut short, in words for people."""
        self._cuts.append(what)

    def part(self, of: int, *, reserve_s: float = 0.0) -> TimeBudget:
        """One of so many equal parts of what is left beyond a reserve, which begins now."""
        seconds = max(self.left_s - reserve_s, _NEXT_TO_NOTHING_S) / of
        return TimeBudget(seconds, clock_s=self._clock_s)

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for each cut, and one where the budget was overdrawn all the same."""
        notes = [f"for time_budget={self._seconds:g}, {what}" for what in self._cuts]
        if self.left_s < 0:
            notes.append(
                f"the call took {self.spent_s:.1f} s with time_budget={self._seconds:g}: "
                "compiling and pricing single operators cannot be cut"
            )
        return tuple(notes)
