"""Detection of a virtual machine's slow mode, in which prices are worthless.

Core-to-core hand-offs usually take 43 to 60 ns, then 360 to 400 ns for minutes; meanwhile running
groups at the same time gains nothing. So every round of a measurement lies between two ping-pongs,
and a round with a slow one at either end does not count. Waiting has a bound, after which rounds
are taken as they come and flagged. Measurements of one session share the bound, since a slow mode
that outlasted one of them outlasts the next.
"""

from __future__ import annotations

import math
import time
from bisect import insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tvm_ios.errors import OptionError
from tvm_ios.support.time_budget import TimeBudget

__all__ = ["ModeOptions", "ModeWatch", "Patience", "WatchedRound"]

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.1
LOOK_LASTS_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeOptions:
    """Options of a watch: when a ping-pong is slow, and how long to wait for better times.

    Raises
    ------
    OptionError
        If a value makes no sense.
    """

    slow_ratio: float = 4.0
    """Ratio to the usual ping-pong of this session above which a ping-pong is slow."""
    slow_ns: float = 200.0
    """Nanoseconds above which a ping-pong is slow in any session; 0: no limit (distant cores)."""
    patience_s: float = 20.0
    """Seconds that all measurements of a session together may spend on waiting and on dropped
    rounds."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.slow_ratio) and self.slow_ratio > 1):
            raise OptionError(f"slow_ratio is {self.slow_ratio}; it must exceed 1 (default 4)")
        if not (math.isfinite(self.slow_ns) and self.slow_ns >= 0):
            raise OptionError(f"slow_ns is {self.slow_ns}; give nanoseconds, or 0 for no limit")
        if not (math.isfinite(self.patience_s) and self.patience_s >= 0):
            raise OptionError(f"patience_s is {self.patience_s}; give seconds, 0 for no waiting")


class Patience:
    """Time that the measurements of one session have spent on a slow machine so far."""

    def __init__(self) -> None:
        self.spent_ns = 0

    def renew(self) -> None:
        """Forget the time spent: the next measurement is worth a wait of its own."""
        self.spent_ns = 0


@dataclass(slots=True)
class WatchedRound:
    """Mode of the machine around a round, known once the round is over."""

    ping_pong_ns: float = 0.0
    """Nanoseconds of the slower ping-pong around the round; 0 where there is none."""
    slow: bool = False
    """True if the machine was slow before or after the round."""


class ModeWatch:
    """Watch over the mode of the machine during one measurement.

    Parameters
    ----------
    ping_pong_ns
        Takes a ping-pong in nanoseconds; 0 means one lane, where nothing is ever slow.
    patience
        Time the session has spent of its patience, shared with its other watches; this watch's own
        where omitted.
    budget
        Time budget of the call, with which patience ends.
    clock_ns, sleep_s
        Functions that return the time and pause; a fake runner brings its own.
    """

    def __init__(
        self,
        ping_pong_ns: Callable[[], float],
        options: ModeOptions,
        *,
        patience: Patience | None = None,
        budget: TimeBudget | None = None,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        self._ping_pong_ns = ping_pong_ns
        self._options = options
        self._patience = patience or Patience()
        self._budget = budget or TimeBudget()
        self._clock_ns = clock_ns
        self._sleep_s = sleep_s
        self._seen_ns: list[float] = []
        self.last_ns = 0.0
        self.slow = False
        """True if the last look found the slow mode."""
        self._looked_at_ns = 0

    @property
    def fast_ns(self) -> float:
        """Usual ping-pong of the fast mode in nanoseconds: the lower quartile of this session's.

        The least one will not do: on a virtual machine one in thirty takes 24 ns while all others
        take 45 to 65, and against that the usual ones look slow. Infinite before the first look.
        """
        return self._seen_ns[(len(self._seen_ns) - 1) // 4] if self._seen_ns else math.inf

    @property
    def patience_left_s(self) -> float:
        """Seconds that may still be spent on waiting."""
        left_s = max(0, round(self._options.patience_s * 1e9) - self._patience.spent_ns) / 1e9
        return max(0.0, min(left_s, self._budget.spare_s))

    @property
    def patient(self) -> bool:
        """True while slow rounds are to be dropped and taken again."""
        return self.patience_left_s > 0

    def look(self) -> bool:
        """True if the machine is slow now, by a new ping-pong.

        Once patience has run out in the slow mode, a look is good for a second: on an overloaded
        machine a ping-pong takes 100 ms, and nothing waits for its result.
        """
        now_ns = self._clock_ns()
        if self.slow and not self.patient and now_ns - self._looked_at_ns < LOOK_LASTS_NS:
            return True
        self._looked_at_ns = now_ns
        self.last_ns = self._ping_pong_ns()
        if not self.last_ns > 0:
            self.last_ns, self.slow = 0.0, False
            return False
        insort(self._seen_ns, self.last_ns)
        options = self._options
        self.slow = self.last_ns > options.slow_ratio * self.fast_ns or (
            0 < options.slow_ns < self.last_ns
        )
        return self.slow

    @contextmanager
    def round(self) -> Iterator[WatchedRound]:
        """Context of a round: begins in the fast mode while patience lasts, ends with a look.

        The look that ends a round also begins the next; call :meth:`look` after a break.
        """
        self._wait_until_fast()
        before_ns, before_slow = self.last_ns, self.slow
        start_ns = self._clock_ns()
        round_ = WatchedRound()
        yield round_
        round_.slow = self.look() or before_slow
        round_.ping_pong_ns = max(before_ns, self.last_ns)
        if round_.slow:
            self._spend(start_ns)

    def _wait_until_fast(self) -> None:
        pause_s = FIRST_PAUSE_S
        while self.slow and self.patient:
            start_ns = self._clock_ns()
            self._sleep_s(min(pause_s, self.patience_left_s))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            self.look()
            self._spend(start_ns)

    def _spend(self, start_ns: int) -> None:
        if self.patient:
            self._patience.spent_ns += self._clock_ns() - start_ns
