"""Times of the parts of a joined network, beside each other and alone. No TVM here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["PartTime", "PartTimes", "waits_of"]

WORTH_TELLING = 0.02
"""Least share of a run that a part waits for another one, for the wait to be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTime:
    """Times of one part in nanoseconds."""

    name: str
    alone_ns: int
    """Least time of a run of this part alone, by the same kernels on the same lanes."""
    done_ns: int
    """End of its last operator in a traced run of all parts."""
    waits_ns: Mapping[str, int]
    """Time in that run in which an operator of it could have run and none did, by the other part
    that ran meanwhile; under an empty name where no part ran."""

    def as_text(self, whole_ns: int) -> str:
        """Times in words, given the length of the traced run."""
        told = f"{self.name} {_ms(self.alone_ns)} alone, done after {_ms(self.done_ns)}"
        waits = {
            name: waits_ns
            for name, waits_ns in self.waits_ns.items()
            if name and waits_ns >= WORTH_TELLING * whole_ns
        }
        if not waits:
            return told
        ordered = sorted(waits, key=lambda name: -waits[name])
        return told + ", waits " + ", ".join(f"{_ms(waits[n])} for {n}" for n in ordered)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTimes:
    """Times of a joined network, and of each part of it."""

    together_ns: int
    """Least time of a run of all parts."""
    traced_ns: int
    """Length of the traced run that the other times in a run are of."""
    parts: tuple[PartTime, ...]

    @property
    def in_turn_ns(self) -> int:
        """Time of all parts one after another, each alone."""
        return sum(part.alone_ns for part in self.parts)

    def lines(self) -> tuple[str, ...]:
        """Lines for people: all parts together, and one for each part."""
        times = self.in_turn_ns / max(self.together_ns, 1)
        whole = (
            f"parts: together {_ms(self.together_ns)}, one after another {_ms(self.in_turn_ns)} "
            f"({times:.2f} times as long)"
        )
        return (whole, *(f"part {part.as_text(self.traced_ns)}" for part in self.parts))


def waits_of(
    waiting: Sequence[tuple[int, int]], running: Mapping[str, Sequence[tuple[int, int]]], own: str
) -> dict[str, int]:
    """Time in which something waits and nothing of its own part runs, by the part that does.

    Intervals are of nanoseconds; where several other parts run, the time is shared by them.
    """
    steps = [(time, "", step) for begin, end in waiting for time, step in ((begin, 1), (end, -1))]
    steps += [
        (time, name, step)
        for name, intervals in running.items()
        for begin, end in intervals
        for time, step in ((begin, 1), (end, -1))
    ]
    counts = dict.fromkeys(("", *running), 0)
    found: dict[str, int] = {}
    last = 0
    for time, name, step in sorted(steps):
        if counts[""] and not counts.get(own):
            others = [each for each in running if counts[each]] or [""]
            for each in others:
                found[each] = found.get(each, 0) + (time - last) // len(others)
        counts[name] += step
        last = time
    return {name: waits_ns for name, waits_ns in found.items() if waits_ns}


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3g} ms"
