"""The race as a page shows it: a row for each contestant, with its interval drawn to scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tvm_ios.measure.comparison import Comparison, Speedup
from tvm_ios.report.html.axis import Axis, Tick

__all__ = ["RaceRow", "RaceTable"]

_BASE = "sequential"
_ROOM = 0.6
"""Room at both ends of the axis for single rounds, as a share of what the intervals take."""
_MARGIN = 3.0
"""Percent of the width at both ends, so that no mark is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceRow:
    """A contestant; places on the axis are percent of the picture's width."""

    name: str
    kept: bool
    median_ms: float
    rounds: int
    """Rounds that it was timed in."""
    speedup: Speedup | None
    """Over the first contestant; None for itself."""
    low: float
    middle: float
    high: float
    dots: tuple[float, ...]
    """Its ratio in each round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceTable:
    """Contestants in their order, the one that all others are compared with first."""

    base: str
    confidence: float
    rounds: int
    """Rounds that count."""
    taken: int
    rows: tuple[RaceRow, ...]
    ticks: tuple[Tick, ...]
    one: float
    """Where the axis has 1: as fast as the base."""
    notes: tuple[str, ...]

    @classmethod
    def of(cls, race: Comparison, kept: str) -> Self:
        """Lay out a race with at least one contestant."""
        base = _BASE if _BASE in race.names else race.names[0]
        others = [name for name in race.names if name != base]
        speedups = {name: race.speedup(name, over=base) for name in others}
        low = min([1.0, *(each.low for each in speedups.values())])
        high = max([1.0, *(each.high for each in speedups.values())])
        room = _ROOM * (high - low) or 0.05
        axis = Axis(low=max(0.0, low - room), high=high + room, begin=_MARGIN, end=100 - _MARGIN)
        return cls(
            base=base,
            confidence=race.confidence,
            rounds=len(race.used_rounds),
            taken=len(race.rounds),
            rows=tuple(
                _row(race, name, base, speedups.get(name), axis, kept=kept)
                for name in (base, *others)
            ),
            ticks=axis.ticks(5),
            one=axis.at(1.0),
            notes=race.notes,
        )

    @property
    def kept(self) -> RaceRow:
        """The row of the contestant that was kept, or else the first one."""
        return next((row for row in self.rows if row.kept), self.rows[0])


def _row(
    race: Comparison, name: str, base: str, speedup: Speedup | None, axis: Axis, *, kept: str
) -> RaceRow:
    ratios = race.ratios(name, over=base)
    return RaceRow(
        name=name,
        kept=name == kept,
        median_ms=race.median_ns(name) / 1e6,
        rounds=len(ratios),
        speedup=speedup,
        low=axis.at(speedup.low if speedup else 1.0),
        middle=axis.at(speedup.ratio if speedup else 1.0),
        high=axis.at(speedup.high if speedup else 1.0),
        dots=tuple(axis.at(ratio) for ratio in ratios) if speedup else (),
    )
