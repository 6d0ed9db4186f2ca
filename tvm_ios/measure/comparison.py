"""Results of an interleaved comparison: raw rounds, ratios with their noise, and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import mean, median
from typing import Any

from tvm_ios.errors import OptionError
from tvm_ios.measure.machine_mode import MOST_STOLEN, MOST_WAITED
from tvm_ios.measure.robust import least_values, median_interval
from tvm_ios.support.json_nouns import noun_from, noun_record
from tvm_ios.support.stored_value import StoredValue

__all__ = [
    "LEAST_ROUNDS",
    "CompareRound",
    "Comparison",
    "Disturber",
    "Outcome",
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
MOST_OF = 0.75
"""Share of the wanted rounds that has to be undisturbed for a race like that of a quiet machine."""


class Outcome(Enum):
    """The outcome of a whole race, against one of its contestants."""

    FASTER = "faster"
    """Another contestant is faster beyond the noise."""
    NO_GAIN = "no gain"
    """No contestant is faster, in the rounds of a quiet machine, or none by over a per cent."""
    UNDECIDED = "undecided"
    """A contestant may be faster, but the machine was disturbed: more rounds will tell."""


class Disturber(Enum):
    """Cause of a disturbed round."""

    PROCESS = "another process had the cores"
    HYPERVISOR = "the hypervisor had the cores"
    SLOW_MODE = "the machine was in its slow mode"


class Verdict(Enum):
    """The outcome of a race for one contestant against another."""

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
    """True if the round was disturbed: by others on the cores, or by the machine's slow mode."""
    waited: float = 0.0
    """Largest share of a sample in the round that a lane waited for a core; above 1 where it waited
    on beyond the sample's end."""
    stolen: float = 0.0
    """Share of the round that the hypervisor took of the average core."""

    @property
    def disturber(self) -> Disturber | None:
        """Cause of the disturbance; None for an undisturbed round."""
        if not self.slow:
            return None
        if self.waited > MOST_WAITED:
            return Disturber.PROCESS
        return Disturber.HYPERVISOR if self.stolen > MOST_STOLEN else Disturber.SLOW_MODE


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
    wanted: int = 0
    """Number of rounds after which the race ended, disturbed ones included once patience had run
    out: a quiet machine would have had as many undisturbed ones. 0 in older records."""

    @property
    def undisturbed_rounds(self) -> tuple[CompareRound, ...]:
        """Rounds in which nobody disturbed the machine."""
        return tuple(round_ for round_ in self.rounds if not round_.slow)

    @property
    def used_rounds(self) -> tuple[CompareRound, ...]:
        """Rounds that count; see :func:`used_rounds`."""
        return used_rounds(self.rounds, self.confidence)

    @property
    def is_quiet(self) -> bool:
        """True if no round that counts was disturbed."""
        return not any(round_.slow for round_ in self.used_rounds)

    @property
    def is_settled(self) -> bool:
        """True if the same race on a quiet machine would hardly end otherwise."""
        if len(self.names) == 1:
            return True
        undisturbed = len(self.undisturbed_rounds)
        if not self.is_quiet or undisturbed < least_rounds(self.confidence):
            return False
        return undisturbed >= MOST_OF * self.wanted or self.is_decided()

    @property
    def disturbance(self) -> str:
        """Clause on what disturbed how many rounds; empty where nothing did."""
        by_disturber = {
            who: [round_ for round_ in self.rounds if round_.disturber is who] for who in Disturber
        }
        return "; ".join(
            f"{who.value} in {len(rounds)} of {len(self.rounds)} rounds ({_sign(who, rounds)})"
            for who, rounds in by_disturber.items()
            if rounds
        )

    def outcome(self, *, over: str, among: Iterable[str] | None = None) -> Outcome:
        """Outcome for some contestants, or all, against one of them."""
        names = [name for name in (self.names if among is None else among) if name != over]
        speedups = [self.speedup(name, over=over) for name in names]
        if any(each.verdict is Verdict.WINS for each in speedups):
            return Outcome.FASTER
        excluded = self.is_quiet and all(each.high <= 1 + INDIFFERENT for each in speedups)
        if not speedups or self.is_settled or excluded:
            return Outcome.NO_GAIN
        return Outcome.UNDECIDED

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
    """Rounds that count: undisturbed ones; those of the slow mode as well, or all, if too few.

    In its slow mode the machine treats all contestants of a round alike, other processes do not.
    Rounds are also too few if they lack some of a contestant that had lost in disturbed ones.
    """
    undisturbed = [round_ for round_ in rounds if not round_.slow]
    alike = [round_ for round_ in rounds if round_.disturber in (None, Disturber.SLOW_MODE)]
    for fair in (undisturbed, alike):
        by_contestant = zip(*(round_.run_ns for round_ in fair), strict=True)
        timed = (sum(ns is not None for ns in run_ns) for run_ns in by_contestant)
        if min(timed, default=0) >= least_rounds(confidence):
            return tuple(fair)
    return tuple(rounds)


def _sign(who: Disturber, rounds: Sequence[CompareRound]) -> str:
    """Sign of a disturber in its rounds, as text."""
    if who is Disturber.PROCESS:
        return f"run delay {100 * mean(min(1.0, each.waited) for each in rounds):.0f} %"
    if who is Disturber.HYPERVISOR:
        return f"steal {100 * mean(each.stolen for each in rounds):.0f} %"
    ping_pong_ns = median(each.ping_pong_ns for each in rounds)
    return f"core-to-core ping-pong {ping_pong_ns:.0f} ns"


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
