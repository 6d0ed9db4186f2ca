"""Table of a race: a row for each contestant, with its interval drawn to scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tvm_ios.measure.comparison import Comparison, Speedup
from tvm_ios.report.contestants import ABOUT
from tvm_ios.report.html.axis import Axis, Tick

__all__ = ["RaceRow", "RaceTable"]

_BASE = "sequential"
_ROOM = 0.6
"""Room at both ends of the axis for single rounds, as a share of the intervals' width."""
_MARGIN = 3.0
"""Per cent of the width at both ends, so that no mark is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceRow:
    """Row of a contestant; places on the axis are per cent of the picture's width."""

    name: str
    kept: bool
    median_ms: float
    rounds: int
    """Number of rounds in which the contestant was timed."""
    speedup: Speedup | None
    """Speedup over the first contestant; None for itself."""
    low: float
    middle: float
    high: float
    dots: tuple[float, ...]
    """Place of the contestant's ratio in each round."""

    @property
    def about(self) -> str:
        """Explanation of the contestant; empty for one of another version."""
        return ABOUT.get(self.name, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceTable:
    """Contestants in order; the first is the base of the ratios."""

    base: str
    confidence: float
    rounds: int
    """Number of rounds that count."""
    taken: int
    rows: tuple[RaceRow, ...]
    ticks: tuple[Tick, ...]
    one: float
    """Place of 1 on the axis: as fast as the base."""
    notes: tuple[str, ...]

    @classmethod
    def of(cls, race: Comparison, kept: str, stock: Comparison | None = None) -> Self:
        """Layout of a race with at least one contestant, and of one with stock TVM."""
        base = _BASE if _BASE in race.names else race.names[0]
        races = {name: race for name in race.names if name != base}
        if stock is not None and base in stock.names:
            races |= {name: stock for name in stock.names if name not in race.names}
        speedups = {name: timed.speedup(name, over=base) for name, timed in races.items()}
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
                _row(timed, name, base, speedups.get(name), axis, kept=kept)
                for name, timed in ({base: race} | races).items()
            ),
            ticks=axis.ticks(5),
            one=axis.at(1.0),
            notes=race.notes,
        )

    @property
    def kept(self) -> RaceRow:
        """Row of the kept contestant, or else the first row."""
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
