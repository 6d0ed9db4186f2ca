"""Rivals of a stage that is priced: other ways to do the same, and when one settles the matter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.profile_key import stage_profile_key
from tvm_ios.measure.sampling import HOPELESS, LONG_SAMPLE_NS

__all__ = ["Rivals"]

NO_GAIN = 1.05
"""Ratio to its groups one after another from which on a stage is not timed again: no schedule has a
use for it."""


@dataclass(frozen=True, slots=True)
class Rivals:
    """Profile keys of other ways to do the same as a stage, and how much faster one has to be."""

    keys: tuple[tuple[str, ...], ...]
    """Stages that each rival runs one after another."""
    ratio: float
    """Ratio to a rival's time from which on the stage is of no interest."""
    shortest_ns: float = 0.0
    """Nanoseconds up to which a stage is of interest in any case, and sampled well."""

    def limit_ns(self, known_ns: Callable[[str], float]) -> float:
        """Nanoseconds above which the stage needs no exact price.

        ``known_ns`` gives the nanoseconds of a stage by key as far as known; else infinity.
        """
        fastest_ns = min((sum(map(known_ns, keys)) for keys in self.keys), default=math.inf)
        return max(self.shortest_ns, self.ratio * fastest_ns)

    @classmethod
    def of(cls, way: tuple[OperatorGraph, Stage], own: str, keys: Sequence[str]) -> Self:
        """Rivals of a way with key ``own`` in a question with these keys.

        They are the other ways of its question. A stage of several groups that is asked for by
        itself competes with its groups, and with its operators, one after another.
        """
        graph, stage = way
        if len(keys) > 1 or stage.is_merge or len(stage.groups) == 1:
            others = tuple((key,) for key in keys if key != own)
            return cls(others, HOPELESS, LONG_SAMPLE_NS)
        singles = tuple((index,) for group in stage.groups for index in group)
        rows = dict.fromkeys((stage.groups, singles))  # the same where no group has several
        apart = (tuple(stage_profile_key(graph, Stage((row,))) for row in each) for each in rows)
        return cls(tuple(apart), NO_GAIN)
