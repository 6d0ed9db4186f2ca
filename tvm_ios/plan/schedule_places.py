"""Places that a schedule gives to kernels: the step from a schedule to placements. No TVM here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.stage_attributes import PlacedKernel
from tvm_ios.errors import ScheduleError
from tvm_ios.plan.placement import ConcatView, Placement, SliceView

__all__ = ["ExtractedGraph", "placements_at", "placements_for"]


class ExtractedGraph(Protocol):
    """Operators that a dialect extracted from a module."""

    @property
    def graph(self) -> OperatorGraph:
        """Operators, in the order of their calls."""

    @property
    def views(self) -> Sequence[SliceView | ConcatView | None]:
        """View that each operator may be; None for others."""

    @property
    def joins(self) -> Sequence[tuple[int, ...]]:
        """Mergeable convolutions whose channels an operator concatenates, in order."""

    @property
    def outputs(self) -> Sequence[int]:
        """Operators whose results the model returns."""


def placements_for(extraction: ExtractedGraph, schedule: InterOpSchedule) -> tuple[Placement, ...]:
    """Placements of a schedule without merge stages on the kernels of the unscheduled build.

    Concurrent stages change only when and where operators run, so they need no second build.

    Raises
    ------
    ScheduleError
        If the schedule is for another graph, or merges convolutions.
    """
    schedule.require_graph(extraction.graph)
    names = schedule.operator_names
    places: dict[int, PlacedKernel] = {}
    for number, stage in enumerate(schedule.stages):
        if stage.is_merge:
            raise ScheduleError(
                f"stage {number} merges {len(stage.operators)} convolutions, which needs kernels "
                "of its own; rewrite the module by the schedule and build that"
            )
        for position, group in enumerate(stage.groups):
            for index in group:
                name = names[index]
                places[index] = PlacedKernel(
                    name=name, members=(name,), stage=number, group=position
                )
    absent = [i for i in range(len(extraction.views)) if i not in places]
    if absent:
        name = extraction.graph.operators[absent[0]].name
        raise ScheduleError(f"operator {name!r} is in no stage; every operator must be in one")
    in_order = [places[index] for index in range(len(extraction.views))]
    return placements_at(extraction, schedule, in_order)


def placements_at(
    extraction: ExtractedGraph, schedule: InterOpSchedule, kernels: Sequence[PlacedKernel]
) -> tuple[Placement, ...]:
    """Placement of every kernel, from its members, stage and group.

    A merged kernel costs as much as all its members; copies cost nothing. Both are split.
    """
    costs_ns = dict(zip(schedule.operator_names, schedule.operator_ns, strict=False))
    unsplit = {(schedule.operator_names[index],) for index in schedule.unsplit}
    return tuple(
        Placement(
            stage=kernel.stage,
            group=kernel.group,
            lane=schedule.home_lanes[schedule.stages[kernel.stage].operators[0]]
            if schedule.home_lanes
            else None,
            cost_ns=sum(costs_ns.get(member, 0) for member in kernel.members),
            split=kernel.members not in unsplit,
            view=view,
        )
        for kernel, view in zip(kernels, extraction.views, strict=True)
    )
