"""Evidence for a schedule: measurements of ``tune`` before it kept one. No TVM here.

Evidence lies in the model's story, so a page can show it on a machine that measured nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Self

from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.measure.comparison import Comparison, Outcome
from tvm_ios.measure.deadlines import PartDeadline
from tvm_ios.measure.part_times import PartTimes
from tvm_ios.plan.trace import TraceEvent

__all__ = ["CurvePoint", "Evidence", "TracedRuns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A moment of kernel tuning in which a kernel became faster."""

    candidates: int
    """Candidates measured by then, failed ones included."""
    total_ns: int
    """Sum in nanoseconds over kernel calls of the network, each by its best kernel so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRuns:
    """Runs of a model whose launches were timed; empty where the device does not tell."""

    runs: int = 0
    stage_ns: tuple[int | None, ...] = ()
    """Median time of each stage in nanoseconds, None for one that launches nothing: how much later
    its last launch ends than those of all stages before. These times add up to a run. In a list,
    whose stages are only an order, time from first to last launch; such times overlap."""
    timeline: tuple[TraceEvent, ...] = ()
    """Launches of the run of median length."""

    @classmethod
    def of(cls, traces: Sequence[Sequence[TraceEvent]], schedule: InterOpSchedule) -> Self:
        """Summarise runs of one schedule; those without a launch do not count."""
        whole = sorted((each for each in traces if each), key=_length_ns)
        if not whole:
            return cls()
        times = _spans if schedule.home_lanes else _steps
        found = [times(trace) for trace in whole]
        return cls(
            runs=len(whole),
            stage_ns=tuple(
                round(median(each[stage] for each in found)) if stage in found[0] else None
                for stage in range(len(schedule.stages))
            ),
            timeline=tuple(whole[(len(whole) - 1) // 2]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Measurements of a tuned model and its rivals, and why its schedule was kept."""

    kept: str
    """Name of the contestant whose schedule the model has."""
    reason: str
    """Sentence for people that says why this schedule was kept."""
    race: Comparison
    lanes: int
    """Lanes of the device, or streams."""
    prices_ns: tuple[int | None, ...] = ()
    """Price of each stage, as the search knew it; None where nobody asked for it, and empty where
    nothing is known of any."""
    traced: TracedRuns = field(default_factory=TracedRuns)
    outcome: Outcome | None = None
    """Outcome of the race against sequential order; None in older files."""
    curve: tuple[CurvePoint, ...] = ()
    """Kernel tuning in the order of its log; empty where no kernels were tuned."""
    phase_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase of the call, in order."""
    deadlines: tuple[PartDeadline, ...] = ()
    """Deadlines that parts of a joined network were given, with measured ends."""
    parts: PartTimes | None = None
    """Times of the parts of a joined network; None for single models, and where nobody took any."""
    stock: Comparison | None = None
    """Race of stock TVM with sequential order and the kept contestant; None where nobody asked."""


def _length_ns(trace: Sequence[TraceEvent]) -> int:
    return max(event.end_ns for event in trace)


def _spans(trace: Sequence[TraceEvent]) -> dict[int, int]:
    """Time of each stage from its first launch on to the end of its last one."""
    begin: dict[int, int] = {}
    for event in trace:
        begin[event.stage] = min(event.start_ns, begin.get(event.stage, event.start_ns))
    return {stage: end_ns - begin[stage] for stage, end_ns in _ends(trace).items()}


def _steps(trace: Sequence[TraceEvent]) -> dict[int, int]:
    """Time that each stage adds to those before it."""
    steps: dict[int, int] = {}
    done_ns = 0
    for stage, end_ns in sorted(_ends(trace).items()):
        steps[stage] = max(0, end_ns - done_ns)
        done_ns = max(done_ns, end_ns)
    return steps


def _ends(trace: Sequence[TraceEvent]) -> dict[int, int]:
    ends: dict[int, int] = {}
    for event in trace:
        ends[event.stage] = max(event.end_ns, ends.get(event.stage, 0))
    return ends
