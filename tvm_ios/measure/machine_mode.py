"""Watch over the machine during a measurement: whether others disturb it.

Three signals tell. *Run delay*: a sample counts if none of its lanes waited for a core meanwhile.
*Stolen time*: what the hypervisor took of a round. *Ping-pong*: on virtual machines core-to-core
hand-offs take 43 to 60 ns, then 360 to 400 ns for minutes, in which running groups at the same time
gains nothing; so every round lies between two of them. What is disturbed is taken again while
patience lasts, and after that it is taken as it comes, and flagged.

Remote devices and GPUs have no run delay, nor has a Linux without it: there ping-pongs tell alone.
"""

from __future__ import annotations

import math
import time
from bisect import insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tvm_ios.errors import OptionError
from tvm_ios.measure.patience import Patience
from tvm_ios.measure.stolen_time import stolen_ns as stolen_here_ns
from tvm_ios.support.time_budget import TimeBudget

__all__ = ["MOST_STOLEN", "MOST_WAITED", "ModeOptions", "ModeWatch", "Patience", "WatchedRound"]

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.1
REST_S = 0.003
"""Seconds of a rest: about the time slice that another process gets."""
LOOK_LASTS_NS = 1_000_000_000
LOOKS = 3
"""Most ping-pongs of a look, while lanes wait for their cores in each."""
LOOK_WAITS_NS = 10_000
"""Nanoseconds of waiting that show in a ping-pong: it takes 50 microseconds."""
MOST_WAITED = 0.02
"""Share of a sample that a lane may wait for a core.

Lanes wait for nothing, or for whole time slices. Of 3,000 samples of 1 ms beside nine busy
processes on two cores, 2,063 waited for less than 0.05 % of their time, and took 1.005 times as
long as the fastest; 903 waited for over 20 %, and took 17 times as long. Of those between, half
took over 1.05 times as long."""
MOST_STOLEN = 0.02
"""Share of a round that the hypervisor may take of the average core."""
TICK_NS = 10_000_000
"""Nanoseconds by which a count of stolen ticks may be too large."""


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
    """Seconds that a measurement may spend on waiting and on disturbed samples. All of a call
    together have no more; half of that is kept for the last race."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.slow_ratio) and self.slow_ratio > 1):
            raise OptionError(f"slow_ratio is {self.slow_ratio}; it must exceed 1 (default 4)")
        if not (math.isfinite(self.slow_ns) and self.slow_ns >= 0):
            raise OptionError(f"slow_ns is {self.slow_ns}; give nanoseconds, or 0 for no limit")
        if not (math.isfinite(self.patience_s) and self.patience_s >= 0):
            raise OptionError(f"patience_s is {self.patience_s}; give seconds, 0 for no waiting")


@dataclass(slots=True)
class WatchedRound:
    """State of the machine around a round, known once the round is over."""

    ping_pong_ns: float = 0.0
    """Nanoseconds of the slower ping-pong around the round; 0 where there is none."""
    stolen: float = 0.0
    """Share of the round that the hypervisor took of the average core."""
    slow: bool = False
    """True if the machine was slow before or after the round, or stolen from."""


class ModeWatch:
    """Watch over the machine during one measurement.

    Parameters
    ----------
    ping_pong_ns
        Takes a ping-pong in nanoseconds; 0 means one lane, where nothing is ever slow.
    waited_ns
        Returns the nanoseconds that lanes waited for a core in all samples so far; None where
        nobody counts them, and stolen time tells nothing of the device either.
    stolen_ns
        Returns the nanoseconds stolen from the average core so far.
    patience
        Patience of the call, shared with its other watches; this watch has its own limit besides.
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
        waited_ns: Callable[[], int | None] = lambda: None,
        stolen_ns: Callable[[], int] = stolen_here_ns,
        patience: Patience | None = None,
        budget: TimeBudget | None = None,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        self._ping_pong_ns = ping_pong_ns
        self._options = options
        self._waited_ns = waited_ns
        self._stolen_ns = stolen_ns
        self._patience = patience
        self._budget = budget or TimeBudget()
        self._clock_ns = clock_ns
        self._sleep_s = sleep_s
        self._seen_ns: list[float] = []
        self.last_ns = 0.0
        self.slow = False
        """True if the last look found the slow mode."""
        self.spent_ns = 0
        """Nanoseconds that this watch has spent of its patience."""
        self.most_waited = 0.0
        """Largest share of a sample that a lane waited for a core."""
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
        own_s = max(0, round(self._options.patience_s * 1e9) - self.spent_ns) / 1e9
        left_s = own_s if self._patience is None else min(own_s, self._patience.left_s)
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
        ping_pong_ns = self._whole_ping_pong_ns()
        if ping_pong_ns is None:
            return self.slow
        self.last_ns = ping_pong_ns
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
        start_ns, spent_ns, stolen_ns = self._clock_ns(), self.spent_ns, self._stolen_ns()
        round_ = WatchedRound()
        yield round_
        round_.stolen = self._stolen_share(stolen_ns, start_ns)
        round_.slow = self.look() or before_slow or round_.stolen > MOST_STOLEN
        round_.ping_pong_ns = max(before_ns, self.last_ns)
        if round_.slow:  # what its disturbed samples took is spent already
            self._spend(self._clock_ns() - start_ns - (self.spent_ns - spent_ns))

    def timed(self, time_ns: Callable[[], int]) -> tuple[int, float]:
        """Nanoseconds that a function tells, and their share that a lane waited for a core."""
        before_ns = self._waited_ns()
        elapsed_ns = time_ns()
        after_ns = self._waited_ns()
        if before_ns is None or after_ns is None or elapsed_ns <= 0:
            return elapsed_ns, 0.0
        return elapsed_ns, (after_ns - before_ns) / elapsed_ns

    def is_disturbed(self, waited: float, elapsed_ns: float) -> bool:
        """True if a lane waited for too large a share of a sample, which then costs patience."""
        self.most_waited = max(self.most_waited, waited)
        if waited <= MOST_WAITED:
            return False
        self._spend(elapsed_ns)
        return True

    def rest(self) -> None:
        """Let another process work for a moment, while patience lasts.

        Lanes that slept get a whole time slice: beside nine busy processes on two cores, samples of
        2 ms are undisturbed in 42 of 100 cases, and in 78 after a rest.
        """
        if self.patient:
            start_ns = self._clock_ns()
            self._sleep_s(min(REST_S, self.patience_left_s))
            self._spend(self._clock_ns() - start_ns)

    def told(self) -> str:
        """Clause on what disturbs this measurement."""
        told = []
        if self.most_waited > MOST_WAITED:
            share = 100 * min(1.0, self.most_waited)
            told.append(f"another process had the cores (for up to {share:.0f} % of a sample)")
        if self.slow or not told:
            told.append(
                f"the machine was in its slow mode (core-to-core ping-pong now {self.last_ns:.0f} "
                f"ns, usually {self.fast_ns:.0f} ns; raise slow_ns if these are its normal times)"
            )
        return ", and ".join(told)

    def _whole_ping_pong_ns(self) -> float | None:
        """Nanoseconds of a ping-pong during which no lane waited for a core; None if each waits.

        Such a one tells of another process, as samples do, and nothing of the machine's mode.
        """
        for _ in range(LOOKS):
            before_ns = self._waited_ns()
            ping_pong_ns = self._ping_pong_ns()
            after_ns = self._waited_ns()
            if before_ns is None or after_ns is None or after_ns - before_ns < LOOK_WAITS_NS:
                return ping_pong_ns
        return None

    def _stolen_share(self, before_ns: int, start_ns: int) -> float:
        elapsed_ns = self._clock_ns() - start_ns
        if self._waited_ns() is None or elapsed_ns <= 0:
            return 0.0
        return max(0.0, self._stolen_ns() - before_ns - TICK_NS) / elapsed_ns

    def _wait_until_fast(self) -> None:
        pause_s = FIRST_PAUSE_S
        while self.slow and self.patient:
            start_ns = self._clock_ns()
            self._sleep_s(min(pause_s, self.patience_left_s))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            self.look()
            self._spend(self._clock_ns() - start_ns)

    def _spend(self, elapsed_ns: float) -> None:
        if not self.patient:
            return
        self.spent_ns += round(elapsed_ns)
        if self._patience is not None:
            self._patience.spent_ns += round(elapsed_ns)
