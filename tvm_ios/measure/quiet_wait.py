"""Wait for a quiet machine, before anything is measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tvm_ios.measure.machine_mode import ModeWatch

__all__ = ["QuietWait", "wait_until_quiet"]

QUIET_S = 1.0
"""Seconds without a disturbance that make a machine quiet: others often work in bursts."""
PROBE_S = 0.02
"""Seconds of a probe. Lanes spin all the while, longer than a time slice of another process."""
PAUSE_S = 0.08
"""Seconds between two probes, in which others may go on with their work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietWait:
    """End of a wait."""

    quiet: bool
    """True if the machine was quiet at last."""
    seconds: float
    """Seconds that were waited."""


def wait_until_quiet(
    watch: ModeWatch,
    most_s: float,
    tell: Callable[[float], None],
    *,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    sleep_s: Callable[[float], None] = time.sleep,
) -> QuietWait:
    """Probe the machine until nobody else has used it for a second, at most for some seconds.

    A machine that is quiet from the start costs a second. ``tell`` gets the seconds that are left,
    each time that somebody disturbs.
    """
    begin_ns = quiet_since_ns = clock_ns()
    while True:
        disturbed = _probe(watch, clock_ns)
        now_ns = clock_ns()
        waited_s = (now_ns - begin_ns) / 1e9
        if disturbed:
            quiet_since_ns = now_ns
        elif now_ns - quiet_since_ns >= QUIET_S * 1e9:
            return QuietWait(quiet=True, seconds=waited_s)
        if waited_s >= most_s:
            return QuietWait(quiet=False, seconds=waited_s)
        if disturbed:
            tell(most_s - waited_s)
        sleep_s(min(PAUSE_S, most_s - waited_s))


def _probe(watch: ModeWatch, clock_ns: Callable[[], int]) -> bool:
    """True if somebody disturbs the machine now."""

    def spin() -> int:
        begin_ns = clock_ns()
        while clock_ns() - begin_ns < PROBE_S * 1e9 and not watch.look():
            pass
        return clock_ns() - begin_ns

    with watch.round() as round_:
        elapsed_ns, waited = watch.timed(spin)
    return watch.is_disturbed(waited, elapsed_ns) or round_.slow
