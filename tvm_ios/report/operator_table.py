"""Times of the launches of a run, a row for each, from traced runs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.merge_outputs import merged_name
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.plan.plan import ExecutionPlan, Launch
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.report.table import Table

__all__ = ["OperatorTime", "flops_of_launches", "operator_table", "operator_times"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTime:
    """Time of one launch of a plan, over several traced runs."""

    operator: str
    stage: int
    lane: int
    """Number of the lane that ran it most often."""
    time_us: float
    """Microseconds by the median; lanes overlap, so these may add up to more than a run."""
    share: float
    """Share of the sum over all launches."""
    gflops: float | None
    """Billions of operations a second; None where the operations are not known."""
    computed_by: str
    """Maker of the result: ``TVM kernel``, or the operator library."""


def operator_times(
    plan: ExecutionPlan,
    traces: Sequence[Sequence[TraceEvent]],
    flops: Mapping[str, int],
) -> tuple[OperatorTime, ...]:
    """Rows of all launches in one or more traced runs, the longest first.

    ``flops`` are the operations of launches by name, where known.
    """
    launches = {launch.operator: launch for launch in plan.launches}
    events: dict[str, list[TraceEvent]] = {}
    for trace in traces:
        for event in trace:
            events.setdefault(event.operator, []).append(event)
    medians = {
        name: statistics.median(each.end_ns - each.start_ns for each in found)
        for name, found in events.items()
    }
    whole = sum(medians.values()) or 1
    return tuple(
        OperatorTime(
            operator=name,
            stage=events[name][0].stage,
            lane=statistics.mode(each.lane for each in events[name]),
            time_us=ns / 1e3,
            share=ns / whole,
            gflops=flops[name] / ns if flops.get(name) and ns else None,
            computed_by=_who(launches.get(name)),
        )
        for name, ns in sorted(medians.items(), key=lambda item: -item[1])
    )


def flops_of_launches(graph: OperatorGraph, schedule: InterOpSchedule) -> dict[str, int]:
    """Operations of launches by name; a merged convolution has those of all its members."""
    flops = {operator.name: operator.flops for operator in graph.operators}
    for stage in schedule.stages:
        if stage.is_merge:
            members = [graph.operators[index] for index in stage.operators]
            name = merged_name([member.name for member in members])
            flops[name] = sum(member.flops for member in members)
    return flops


def operator_table(times: Sequence[OperatorTime]) -> Table:
    """Table of the rows."""
    return Table(
        header=("operator", "stage", "lane", "time us", "share", "GFLOPS", "computed by"),
        rows=tuple(
            (
                each.operator,
                str(each.stage),
                str(each.lane),
                f"{each.time_us:.1f}",
                f"{each.share:.1%}",
                "" if each.gflops is None else f"{each.gflops:.2f}",
                each.computed_by,
            )
            for each in times
        ),
    )


def _who(launch: Launch | None) -> str:
    if launch is None or launch.call is None:
        return "TVM kernel"
    return launch.call.library.title
