"""Cells of the experiment schedules and what is found in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvm_ios.measure.comparison import Comparison
from tvm_ios_lab.harness.published_system import SCHEDULERS

__all__ = ["CONTESTANTS", "NAMES", "TUNE", "FoundSchedules"]

NAMES = tuple(SCHEDULERS)
TUNE = "tune"
"""Name of what ``tune`` keeps of all it races; only measured networks have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSchedules:
    """Latencies of one network on one device, by schedule."""

    ms: Mapping[str, float]
    """Medians where measured."""
    search_s: Mapping[str, float]
    """Seconds of the search, pricing included; searches of one network share their prices."""
    stages: Mapping[str, int]
    priced_by: str
    """The clock, or the model."""
    kept: str
    """Name of what ``tune`` keeps; empty where nothing was measured."""
    race: Comparison | None
    """Race with all rounds; None where nothing was measured."""

    def speedup(self, name: str) -> float:
        """Speedup over sequential order; where measured, the median of the rounds' ratios."""
        if self.race is not None:
            contestant = self.kept if name == TUNE else CONTESTANTS[name]
            return self.race.speedup(contestant, over=CONTESTANTS[NAMES[0]]).ratio
        return self.ms[NAMES[0]] / self.ms[name]


CONTESTANTS = {name: name for name in NAMES} | {"IOS-parallel": "IOS-concurrent"}
"""Names that evaluations give the schedules."""
