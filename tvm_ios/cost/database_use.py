"""Entries that a call took from a profile database, and those it measured, as one line."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

__all__ = ["DatabaseUse", "Remembered", "day_of"]


class Remembered(Enum):
    """Kinds of entries in a profile database; the value is the word for one."""

    PRICE = "price"
    CHOICE = "choice"
    """Choice between ways to run a network, which was raced."""
    RACE = "last race"


@dataclass(slots=True)
class DatabaseUse:
    """Entries that were taken from a profile database, and those measured, since this began.

    An entry that was measured since counts as measured, even if it is asked for again.
    """

    _taken: dict[tuple[Remembered, str], str] = field(default_factory=dict)
    """Day of measuring of each entry taken, by kind and name."""
    _measured: set[tuple[Remembered, str]] = field(default_factory=set)
    doubtful: bool = False
    """True if something was chosen while the machine was disturbed, and not stored for that."""

    def take(self, kind: Remembered, name: str, day: str) -> None:
        """Note that an entry, measured on a day, was found and is used."""
        if (kind, name) not in self._measured:
            self._taken[kind, name] = day

    def measure(self, kind: Remembered, names: Iterable[str]) -> None:
        """Note entries that were measured."""
        for name in names:
            self._measured.add((kind, name))
            self._taken.pop((kind, name), None)

    def as_text(self, path: Path) -> str:
        """Line of text: entries taken from the file of a path, their days, and entries measured."""
        measured = _counted(kind for kind, _ in self._measured)
        if not self._taken:
            return f"measured now: {measured or 'nothing'}; {path} had none of it"
        first, last = min(self._taken.values()), max(self._taken.values())
        days = f"on {first}" if first == last else f"from {first} to {last}"
        taken = _counted(kind for kind, _ in self._taken)
        rest = f"measured now: {measured}" if measured else "nothing had to be measured"
        return f"taken from {path}, measured {days}: {taken}; {rest} (--fresh measures all anew)"


def day_of(measured_at_s: float) -> str:
    """The local date of a time in seconds since 1970, as ``2026-01-31``."""
    return time.strftime("%Y-%m-%d", time.localtime(measured_at_s))


def _counted(kinds: Iterable[Remembered]) -> str:
    found = list(kinds)
    counts = {kind: found.count(kind) for kind in Remembered if kind in found}
    return ", ".join(
        "the last race" if kind is Remembered.RACE else f"{n} {kind.value}{'s' if n > 1 else ''}"
        for kind, n in counts.items()
    )
