"""The time a call may take, and what was left out to keep to it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from tvm_ios.errors import OptionError

__all__ = ["TimeBudget"]

_NEXT_TO_NOTHING_S = 1e-9


class TimeBudget:
    """Seconds that a whole call may take, counted from the construction; None for no limit.

    Necessary work is done, late or not. Optional work asks :meth:`allows` first, and :meth:`cut`
    notes what was left out or cut short.
    """

    def __init__(
        self, seconds: float | None = None, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        # `not >`, since NaN compares as false.
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
        """Seconds that are left: infinite without a limit, below 0 when overdrawn."""
        return self._seconds - self.spent_s

    def allows(self, seconds: float) -> bool:
        """True if work of a number of seconds would end in time."""
        return seconds <= self.left_s

    def cut(self, what: str) -> None:
        """Note what was left out or cut short, in words for people."""
        self._cuts.append(what)

    def part(self, of: int, *, reserve_s: float = 0.0) -> TimeBudget:
        """Budget, from now on, of one of some equal parts of the time left beyond a reserve."""
        seconds = max(self.left_s - reserve_s, _NEXT_TO_NOTHING_S) / of
        return TimeBudget(seconds, clock_s=self._clock_s)

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines for people, one for each cut, and one if the budget was overdrawn."""
        notes = [f"for time_budget={self._seconds:g}, {what}" for what in self._cuts]
        if self.left_s < 0:
            notes.append(
                f"the call took {self.spent_s:.1f} s with time_budget={self._seconds:g}: "
                "compiling and pricing single operators cannot be cut"
            )
        return tuple(notes)
