"""The result of ``tune`` on a few lines, the same on a terminal and on top of a page."""

from __future__ import annotations

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.report.bottleneck import bottleneck
from tvm_ios.report.labels import with_interval
from tvm_ios.runtime.artifact.evidence import Evidence
from tvm_ios.runtime.artifact.story import ModelStory

__all__ = ["form_line", "latency_line", "result_box"]

_BASE = "sequential"


def result_box(story: ModelStory) -> tuple[str, ...]:
    """Lines on a model's story: what was kept, its latency, its bottleneck, its form.

    Empty where the schedule was given, so that nothing was measured.
    """
    evidence = story.evidence
    if evidence is None:
        return ()
    slowest = bottleneck(story)
    return (
        f"kept {evidence.kept}: {evidence.reason}",
        latency_line(evidence),
        *(() if evidence.parts is None else evidence.parts.lines()),
        *(each.as_text() for each in evidence.deadlines),
        *([f"bottleneck: {slowest}"] if slowest else []),
        *([f"ceiling: {story.ceiling}"] if story.ceiling else []),
        form_line(story.graph, story.schedule),
        *([story.quantised] if story.quantised else []),
        *([story.precision.as_text()] if story.precision else []),
        *([story.rest] if story.rest else []),
    )


def latency_line(evidence: Evidence) -> str:
    """Line with the median latency of the kept contestant, and that of sequential order."""
    race = evidence.race
    low, high = (ns / 1e6 for ns in race.interval_ns(evidence.kept))
    told = f"latency {with_interval(race.median_ns(evidence.kept) / 1e6, low, high, ' ms')}"
    if evidence.kept == _BASE or _BASE not in race.names:
        return told
    return f"{told}; {_BASE} order {race.median_ns(_BASE) / 1e6:.3g} ms"


def form_line(graph: OperatorGraph, schedule: InterOpSchedule) -> str:
    """Line with the numbers of operators, and of stages or lanes."""
    wide = [stage for stage in schedule.stages if len(stage.groups) > 1]
    merged = sum(stage.is_merge for stage in wide)
    form = (
        f"as a list on {schedule.num_home_lanes} lanes"
        if schedule.home_lanes
        else f"in {len(schedule.stages)} stages, {len(wide) - merged} of them concurrent"
    )
    return f"{len(graph)} operators {form}, {merged} merged"
