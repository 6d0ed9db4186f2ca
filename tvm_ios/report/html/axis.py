"""Axis of a picture: a range of values, the place of each, and round numbers to write at it."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Axis", "Tick"]

_STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A round number at an axis."""

    at: float
    """Place of the number, between ``begin`` and ``end`` of the axis."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Axis from ``begin`` to ``end`` for values from ``low`` to ``high``."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """Place of a value; a value outside gets the nearest end of the axis."""
        span = self.high - self.low
        share = (min(max(value, self.low), self.high) - self.low) / span if span > 0 else 0.5
        return round(self.begin + share * (self.end - self.begin), 2)

    def ticks(self, most: int, unit: str = "") -> tuple[Tick, ...]:
        """Evenly spaced round numbers with a unit, at most ``most``."""
        span = self.high - self.low
        if span <= 0:
            return (Tick(at=self.at(self.low), text=f"{self.low:g}{unit}"),)
        rough = span / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(each * power for each in _STEPS if each * power >= rough * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        digits = next(d for d in range(20) if math.isclose(round(step, d), step, rel_tol=1e-6))
        return tuple(
            Tick(at=self.at(number * step), text=f"{number * step:.{digits}f}{unit}")
            for number in range(first, last + 1)
        )
