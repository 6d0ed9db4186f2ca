"""Evidence for a schedule: what ``tune`` measured before it kept one. No TVM here.

It travels with the model's story, so a page can show it on a machine that measured nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Self

from tvm_ios.measure.comparison import Comparison
from tvm_ios.plan.trace import TraceEvent

__all__ = ["CurvePoint", "Evidence", "TracedRuns"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """A moment of kernel tuning in which a kernel became faster."""

    candidates: int
    """Candidates measured by then, failed ones included."""
    total_ns: int
    """The best kernels so far, one after another, as often as the network runs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRuns:
    """Runs of a model whose launches were timed; empty where the device does not tell."""

    runs: int = 0
    stage_ns: tuple[int | None, ...] = ()
    """Median time of each stage from its first launch to its last one's end, in nanoseconds; None
    for a stage that launches nothing."""
    timeline: tuple[TraceEvent, ...] = ()
    """Launches of the run of median length."""

    @classmethod
    def of(cls, traces: Sequence[Sequence[TraceEvent]], *, num_stages: int) -> Self:
        """Summarise runs of one model; those without a launch do not count."""
        whole = sorted((each for each in traces if each), key=_length_ns)
        if not whole:
            return cls()
        spans = [_stage_spans(trace) for trace in whole]
        return cls(
            runs=len(whole),
            stage_ns=tuple(
                round(median(each[stage] for each in spans)) if stage in spans[0] else None
                for stage in range(num_stages)
            ),
            timeline=tuple(whole[(len(whole) - 1) // 2]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was measured of a tuned model and its rivals."""

    kept: str
    """The contestant whose schedule the model has."""
    reason: str
    """A sentence for people: why that one."""
    race: Comparison
    lanes: int
    """Lanes of the device, or streams."""
    prices_ns: tuple[int | None, ...] = ()
    """Price of each stage, run by itself; None where nobody asked for it, and empty where nothing
    is known of any."""
    traced: TracedRuns = field(default_factory=TracedRuns)
    curve: tuple[CurvePoint, ...] = ()
    """Kernel tuning in the order of its log; empty where no kernels were tuned."""
    phase_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase of the call, in order."""


def _length_ns(trace: Sequence[TraceEvent]) -> int:
    return max(event.end_ns for event in trace)


def _stage_spans(trace: Sequence[TraceEvent]) -> dict[int, int]:
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for event in trace:
        begin[event.stage] = min(event.start_ns, begin.get(event.stage, event.start_ns))
        end[event.stage] = max(event.end_ns, end.get(event.stage, 0))
    return {stage: end[stage] - begin[stage] for stage in begin}
