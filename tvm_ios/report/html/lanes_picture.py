"""Picture of a run: a row for each lane, a bar for each launch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.report.html.axis import Axis, Tick
from tvm_ios.report.labels import duration
from tvm_ios.report.palette import FAMILIES, family_of

__all__ = ["LaneRow", "LanesPicture", "LaunchBar", "StageStripe"]

_ROW = 36
_AXIS = 26


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchBar:
    """Bar of a launch; all sizes in this file are pixels."""

    x: float
    width: float
    family: int
    """Index of the operator's family in :data:`~tvm_ios.report.palette.FAMILIES`."""
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """Row of a lane, with the bars of its launches."""

    number: int
    y: float
    busy: float
    """Share of the run in which one of the lane's own launches was running."""
    bars: tuple[LaunchBar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStripe:
    """Stripe from a stage's first launch to that of the next stage."""

    stage: int
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesPicture:
    """Picture of a whole run."""

    width: ClassVar[int] = 1200
    bar_height: ClassVar[int] = 26
    left: ClassVar[int] = 96
    right: ClassVar[int] = 1190
    height: int
    bottom: int
    """Height at which the time axis lies."""
    rows: tuple[LaneRow, ...]
    stripes: tuple[StageStripe, ...]
    """Stripe of every second stage; none for a list, whose stages overlap."""
    ticks: tuple[Tick, ...]
    families: tuple[int, ...]
    length_ns: int

    @classmethod
    def of(
        cls,
        graph: OperatorGraph,
        schedule: InterOpSchedule,
        timeline: Iterable[TraceEvent],
        lanes: int,
    ) -> Self:
        """Layout of a run with at least one launch."""
        events = sorted(timeline, key=lambda event: event.start_ns)
        length_ns = max(event.end_ns for event in events)
        axis = Axis(low=0, high=max(length_ns, 1), begin=cls.left, end=cls.right)
        kinds = {operator.name: operator.kind for operator in graph.operators}
        rows: list[list[LaunchBar]] = [
            [] for _ in range(max(lanes, 1 + max(event.lane for event in events)))
        ]
        busy = [0] * len(rows)
        for event in events:
            first = graph.operators[schedule.stages[event.stage].operators[0]].kind
            rows[event.lane].append(_bar(event, kinds.get(event.operator, first), axis))
            busy[event.lane] += event.end_ns - event.start_ns
        bottom = len(rows) * _ROW
        return cls(
            height=bottom + _AXIS,
            bottom=bottom,
            rows=tuple(
                LaneRow(
                    number=number,
                    y=number * _ROW + (_ROW - cls.bar_height) / 2,
                    busy=busy[number] / max(length_ns, 1),
                    bars=tuple(bars),
                )
                for number, bars in enumerate(rows)
            ),
            stripes=() if schedule.home_lanes else _stripes(events, axis),
            ticks=_time_axis(axis),
            families=tuple(sorted({bar.family for bars in rows for bar in bars})),
            length_ns=length_ns,
        )


def _bar(event: TraceEvent, kind: str, axis: Axis) -> LaunchBar:
    begin, end = axis.at(event.start_ns), axis.at(event.end_ns)
    taken = duration(event.end_ns - event.start_ns)
    return LaunchBar(
        x=begin,
        width=round(max(end - begin, 0.3), 2),
        family=FAMILIES.index(family_of(kind)),
        title=f"{event.operator}\n{taken} from {duration(event.start_ns)} on, "
        f"stage {event.stage}, group {event.group}",
    )


def _stripes(events: Iterable[TraceEvent], axis: Axis) -> tuple[StageStripe, ...]:
    begin: dict[int, int] = {}
    for event in events:
        begin.setdefault(event.stage, event.start_ns)
    stages = sorted(begin, key=lambda stage: begin[stage])
    places = [axis.at(begin[stage]) for stage in stages] + [axis.end]
    return tuple(
        StageStripe(
            stage=stage, x=places[number], width=round(places[number + 1] - places[number], 2)
        )
        for number, stage in enumerate(stages)
        if number % 2 == 0
    )


def _time_axis(axis: Axis) -> tuple[Tick, ...]:
    """Round times, in the unit that gives short numbers."""
    per_unit, unit = (1e6, " ms") if axis.high >= 1e6 else (1e3, " \N{MICRO SIGN}s")
    scaled = Axis(low=0, high=axis.high / per_unit, begin=axis.begin, end=axis.end)
    return scaled.ticks(8, unit)
