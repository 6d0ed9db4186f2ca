"""Results of an interleaved comparison: raw rounds, ratios with their noise, and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Any

from tvm_ios.errors import OptionError
from tvm_ios.measure.robust import least_values, median_interval
from tvm_ios.support.json_nouns import noun_from, noun_record
from tvm_ios.support.stored_value import StoredValue

__all__ = [
    "LEAST_ROUNDS",
    "CompareRound",
    "Comparison",
    "Speedup",
    "Verdict",
    "least_rounds",
    "speedup_of",
    "used_rounds",
]

LEAST_ROUNDS = 6
"""Fewest rounds for a 95 % interval (see :func:`~tvm_ios.measure.robust.median_interval`)."""
INDIFFERENT = 0.01
"""Relative difference below which no more rounds are taken to tell contestants apart."""


class Verdict(Enum):
    """The outcome of a race for one contestant."""

    WINS = "wins"
    TIES = "ties"
    LOSES = "loses"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRound:
    """A sample of every contestant, taken in turn."""

    run_ns: tuple[float | None, ...]
    """Nanoseconds of one run, in the order of :attr:`Comparison.names`; None for contestants that
    lost beyond doubt in earlier rounds and are not timed any more."""
    ping_pong_ns: float
    """Nanoseconds of the slower hand-off of the two around the round; 0 where none was taken."""
    slow: bool
    """True if taken in the machine's slow mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """Speedup of one contestant over another, with its interval and verdict."""

    contestant: str
    over: str
    ratio: float
    """Median over the rounds of the time of ``over`` by the time of ``contestant``."""
    low: float
    """Lower end of the confidence interval of the median."""
    high: float
    verdict: Verdict
    """Win or loss only if the whole interval lies on one side of 1."""

    def as_text(self) -> str:
        """Line of text: both names, ratio, interval, verdict."""
        return (
            f"{self.contestant} {self.verdict.value} over {self.over}: {self.ratio:.3f} times as "
            f"fast ({self.low:.3f} to {self.high:.3f})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Results of a comparison, dropped rounds included, so that a reader can judge."""

    names: tuple[str, ...]
    rounds: tuple[CompareRound, ...]
    """Rounds in the order they were taken."""
    confidence: float
    notes: tuple[str, ...]

    @property
    def used_rounds(self) -> tuple[CompareRound, ...]:
        """Rounds that count: those outside the slow mode, or all if these are too few."""
        return used_rounds(self.rounds, self.confidence)

    @property
    def is_quiet(self) -> bool:
        """True if no round that counts was taken in the slow mode."""
        return not any(round_.slow for round_ in self.used_rounds)

    @property
    def rivals(self) -> tuple[str, ...]:
        """Contestants that were timed to the end, as they did not lose beyond doubt before."""
        last = self.rounds[-1].run_ns
        return tuple(name for name, ns in zip(self.names, last, strict=True) if ns is not None)

    def fastest(self, among: Iterable[str] | None = None) -> str:
        """Fastest contestant: the least median among those that were timed in the most rounds.

        A contestant with fewer rounds had lost by then. Its median is of other minutes, perhaps
        better ones; only medians of the same rounds can be compared. All contestants
        count where ``among`` is omitted.
        """
        return min(
            self.names if among is None else among,
            key=lambda name: (-len(self._times(name)), self.median_ns(name)),
        )

    def median_ns(self, name: str) -> float:
        """Median time of one run of a contestant in nanoseconds, over its rounds."""
        return median(self._times(name).values())

    def interval_ns(self, name: str) -> tuple[float, float]:
        """Interval that holds the true median of a contestant's time with :attr:`confidence`.

        Of fewer rounds than that takes, the least and the most.
        """
        return _interval(list(self._times(name).values()), self.confidence)

    def speedup(self, contestant: str, *, over: str) -> Speedup:
        """Speedup of a contestant over another, and whether it beats the noise."""
        return speedup_of(
            self.ratios(contestant, over=over),
            contestant=contestant,
            over=over,
            confidence=self.confidence,
        )

    def ratios(self, contestant: str, *, over: str) -> list[float]:
        """Speedup of a contestant over another in each round that both were timed in."""
        first, second = self._times(contestant), self._times(over)
        return [second[number] / ns for number, ns in first.items() if number in second]

    def is_decided(self) -> bool:
        """True if more rounds would hardly change which contestant is the fastest.

        The fastest one so far beats every rival, or ties with it within :data:`INDIFFERENT`, each
        time with the whole interval of :attr:`confidence`.
        """
        best = self.fastest()
        found = [self.speedup(best, over=name) for name in self.rivals if name != best]
        return all(
            each.verdict is Verdict.WINS
            or (each.low >= 1 - INDIFFERENT and each.high <= 1 + INDIFFERENT)
            for each in found
        )

    def as_record(self) -> dict[str, Any]:
        """Plain data for JSON: names, all rounds, notes."""
        record: dict[str, Any] = noun_record(Comparison, self)
        return record

    @classmethod
    def from_record(cls, stored: StoredValue) -> Comparison:
        """Comparison in the data of :meth:`as_record`."""
        found = noun_from(cls, stored)
        for row in stored.field("rounds").rows():
            # The reader of nouns takes tuples of any length, and times go by place.
            row.field("run_ns").rows(len(found.names))
        return found

    def as_text(self) -> str:
        """Text with a line for each contestant: median, and speedup over the first one."""
        used = len(self.used_rounds)
        lines = [f"{used} rounds of {len(self.rounds)} taken, ratios are over {self.names[0]}"]
        for name in self.names:
            speedup = self.speedup(name, over=self.names[0])
            lines.append(
                f"  {name}: {self.median_ns(name) / 1e6:.4f} ms, {speedup.ratio:.3f} "
                f"({speedup.low:.3f} to {speedup.high:.3f})"
            )
        lines.extend(f"  note: {note}" for note in self.notes)
        return "\n".join(lines)

    def _times(self, name: str) -> dict[int, float]:
        """Nanoseconds of a contestant by round number, of the rounds that count and have it."""
        if name not in self.names:
            raise OptionError(f"no contestant is named {name!r}; there are {', '.join(self.names)}")
        place = self.names.index(name)
        times = ((number, each.run_ns[place]) for number, each in enumerate(self.used_rounds))
        return {number: ns for number, ns in times if ns is not None}


def least_rounds(confidence: float) -> int:
    """Fewest rounds of a contestant that give an interval of a confidence."""
    return max(LEAST_ROUNDS, least_values(confidence))


def used_rounds(rounds: Sequence[CompareRound], confidence: float) -> tuple[CompareRound, ...]:
    """Rounds that count: those outside the slow mode, or all if these are too few.

    They are also too few if they lack rounds of a contestant that had lost in slow rounds.
    """
    fast = tuple(round_ for round_ in rounds if not round_.slow)
    by_contestant = zip(*(round_.run_ns for round_ in fast), strict=True)
    timed = (sum(ns is not None for ns in run_ns) for run_ns in by_contestant)
    enough = min(timed, default=0) >= least_rounds(confidence)
    return fast if enough else tuple(rounds)


def speedup_of(
    ratios: Sequence[float], *, contestant: str, over: str, confidence: float = 0.95
) -> Speedup:
    """Speedup with interval and verdict, from ratios of each round; too few of them are a tie."""
    low, high = _interval(ratios, confidence)
    if len(ratios) < least_values(confidence):
        verdict = Verdict.TIES
    elif low > 1:
        verdict = Verdict.WINS
    elif high < 1:
        verdict = Verdict.LOSES
    else:
        verdict = Verdict.TIES
    return Speedup(
        contestant=contestant,
        over=over,
        ratio=median(ratios),
        low=low,
        high=high,
        verdict=verdict,
    )


def _interval(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Interval of the median, or the least and the most of too few values, as a race cut short."""
    if 0 < len(values) < least_values(confidence):
        return min(values), max(values)
    return median_interval(values, confidence)
