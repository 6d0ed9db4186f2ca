"""Patience of a call: time that its measurements together may lose on a disturbed machine."""

from __future__ import annotations

import math

__all__ = ["FOR_LAST_RACE", "Patience"]

FOR_LAST_RACE = 0.5
"""Share of a call's patience that is kept for its last race, which alone decides what it returns.
On a busy machine the steps before it would spend all."""


class Patience:
    """Time that the measurements of one call have spent on waiting and on disturbed samples.

    ``total_s`` are the seconds that they may spend together; infinite where each measurement has
    its own limit only.
    """

    def __init__(self, total_s: float = math.inf) -> None:
        self.total_s = total_s
        self.spent_ns = 0
        self._share = 1 - FOR_LAST_RACE

    @property
    def left_s(self) -> float:
        """Seconds that may still be spent now."""
        return max(0.0, self._share * self.total_s - self.spent_ns / 1e9)

    def begin_last_race(self) -> None:
        """Let the next measurement spend what was kept for the last race, too."""
        self._share = 1.0
