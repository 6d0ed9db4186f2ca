"""Cells of the experiment sample and what is found in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.measure.comparison import Comparison

__all__ = ["SAMPLED", "SampledNetwork", "SampledSchedule", "stages_text"]

SAMPLED = ("sequential", "IOS-parallel", "IOS-both")
"""The README compares the first two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledSchedule:
    """Schedule of the sample network."""

    name: str
    ms: float
    over_sequential: float
    """Speedup over sequential order; where measured, the median of the rounds."""
    stages: tuple[str, ...]
    stage_us: tuple[float, ...]
    """Microseconds of each stage by itself."""
    picture: str
    """The file that it is drawn in; empty where matplotlib is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledNetwork:
    """Schedules of the sample network on a device."""

    schedules: tuple[SampledSchedule, ...]
    race: Comparison | None
    """Race with all rounds; None where nothing was measured."""


def stages_text(graph: OperatorGraph, stages: Sequence[Stage]) -> tuple[str, ...]:
    """Stages as the README prints them: groups side by side, a merge with plus signs."""
    names = [operator.name for operator in graph.operators]
    return tuple(
        ("+" if stage.is_merge else " | ").join(
            " > ".join(names[index] for index in group) for group in stage.groups
        )
        for stage in stages
    )
