"""Picture of a schedule for a page: the layout of the figures, in pixels, with titles.

Each operator's title says in words what a picture in a file says by ink alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.report.geometry import BOX_HEIGHT, BOX_WIDTH, TAG_SIZE, Frame, Layout, Point, Wire
from tvm_ios.report.labels import duration, operator_label, stage_label
from tvm_ios.report.layout import lay_out
from tvm_ios.report.palette import FAMILIES, family_of

__all__ = ["OperatorBox", "SchedulePicture", "StageBand"]

_SCALE = 100
"""Pixels per inch of the layout."""
_MARGIN = 12.0
_HEAD = 0.05
"""Length of an arrow's head in inches."""
_MOST_LETTERS = 17
"""Number of letters that fit into a box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorBox:
    """Box of an operator; all sizes in this file are pixels."""

    index: int
    x: float
    y: float
    family: int
    """Index of the operator's family in :data:`~tvm_ios.report.palette.FAMILIES`."""
    barrier: bool
    lines: tuple[str, ...]
    title: str
    """Name of the operator and all known facts about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageBand:
    """Band of a stage, with its label."""

    stage: int
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]
    bar: float
    """Height of the bar for its predicted time; 0 where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePicture:
    """Picture of a whole schedule."""

    box_width: ClassVar[float] = round(BOX_WIDTH * _SCALE, 1)
    box_height: ClassVar[float] = round(BOX_HEIGHT * _SCALE, 1)
    tag_radius: ClassVar[float] = round(TAG_SIZE / 2 * _SCALE, 1)
    width: float
    height: float
    bands: tuple[StageBand, ...]
    frames: tuple[Frame, ...]
    boxes: tuple[OperatorBox, ...]
    tags: tuple[tuple[int, Point], ...]
    """Operator and centre of each tag."""
    wires: str
    """Path of the lines of all wires."""
    heads: str
    """Path of the heads of all arrows."""
    families: tuple[int, ...]
    """Families that occur, in the order of the palette."""
    merges: bool
    barriers: bool

    @classmethod
    def of(
        cls, graph: OperatorGraph, schedule: InterOpSchedule, prices_ns: tuple[int | None, ...]
    ) -> Self:
        """Layout of a schedule; prices of its stages are bars beside them."""
        layout = lay_out(graph, schedule)
        boxes = tuple(_boxes(graph, schedule, layout))
        return cls(
            width=_px(layout.width) + 2 * _MARGIN,
            height=_px(layout.height) + 2 * _MARGIN,
            bands=tuple(_bands(schedule, layout, prices_ns)),
            frames=tuple(
                Frame(
                    left=_at(frame.left),
                    top=_at(frame.top),
                    width=_px(frame.width),
                    height=_px(frame.height),
                    merge=frame.merge,
                )
                for frame in layout.frames
            ),
            boxes=boxes,
            tags=tuple((operator, Point(_at(at.x), _at(at.y))) for operator, at in layout.tags),
            wires="".join(map(_line, layout.wires)),
            heads="".join(_head(wire) for wire in layout.wires if wire.arrow),
            families=tuple(sorted({box.family for box in boxes})),
            merges=any(frame.merge for frame in layout.frames),
            barriers=any(box.barrier for box in boxes),
        )


def _boxes(
    graph: OperatorGraph, schedule: InterOpSchedule, layout: Layout
) -> Iterator[OperatorBox]:
    stage_of = {
        operator: number
        for number, stage in enumerate(schedule.stages)
        for operator in stage.operators
    }
    libraries = {
        operator: row.library for row in schedule.libraries or () for operator in row.operators
    }
    for index, point in sorted(layout.boxes.items()):
        operator = graph.operators[index]
        yield OperatorBox(
            index=index,
            x=_at(point.x - BOX_WIDTH / 2),
            y=_at(point.y - BOX_HEIGHT / 2),
            family=FAMILIES.index(family_of(operator.kind)),
            barrier=not operator.schedulable,
            lines=tuple(_short(line) for line in operator_label(operator).splitlines()),
            title=_title(index, operator, schedule, stage_of[index], libraries.get(index)),
        )


def _title(
    index: int, operator: Operator, schedule: InterOpSchedule, stage: int, library: str | None
) -> str:
    facts = [f"{index}: {operator.name}", f"kind {operator.kind}, stage {stage}"]
    if schedule.home_lanes:
        facts[-1] += f", lane {schedule.home_lanes[index]}"
    if operator.flops:
        facts.append(f"{operator.flops / 1e6:.2f} MFLOP")
    if operator.memory_bytes:
        facts.append(f"{operator.memory_bytes / 1e3:.1f} kB read and written")
    if schedule.operator_ns:
        facts.append(f"alone on one lane {duration(schedule.operator_ns[index])}")
    if index in schedule.unsplit:
        facts.append("idle lanes do not help with it")
    if library is not None:
        facts.append(f"computed by {library}{' in int8' if operator.whole else ''}")
    elif operator.whole:
        facts.append("reads bytes, computed in float32")
    if not operator.schedulable:
        facts.append("a barrier: run in a stage of its own")
    return "\n".join(facts)


def _bands(
    schedule: InterOpSchedule, layout: Layout, prices_ns: tuple[int | None, ...]
) -> Iterator[StageBand]:
    known = prices_ns or (None,) * len(schedule.stages)
    longest = max((ns for ns in known if ns is not None), default=0) or 1
    for band in layout.bands:
        price_ns = known[band.stage]
        lines = stage_label(schedule, band.stage)
        if price_ns is not None:
            lines.append(duration(price_ns))
        yield StageBand(
            stage=band.stage,
            x=_at(band.left),
            y=_at(band.top),
            width=_px(band.width),
            height=_px(band.height),
            lines=tuple(lines),
            bar=_px(band.height * (price_ns or 0) / longest),
        )


def _line(wire: Wire) -> str:
    start, end = wire.start, wire.end
    begin = f"M{_at(start.x):g} {_at(start.y):g}"
    if start.x == end.x:
        return f"{begin}V{_at(end.y):g}"
    if start.y == end.y:
        return f"{begin}H{_at(end.x):g}"
    middle = _at((start.y + end.y) / 2)
    return f"{begin}C{_at(start.x):g} {middle:g} {_at(end.x):g} {middle:g} {_place(end)}"


def _head(wire: Wire) -> str:
    """Triangle at the end of an arrow that comes from above or from a side."""
    start, end = wire.start, wire.end
    if start.y == end.y:
        back = end.x - _HEAD if start.x < end.x else end.x + _HEAD
        corners = Point(back, end.y - _HEAD / 2), Point(back, end.y + _HEAD / 2)
    else:
        back = end.y - _HEAD
        corners = Point(end.x - _HEAD / 2, back), Point(end.x + _HEAD / 2, back)
    return f"M{_place(end)}L{_place(corners[0])} {_place(corners[1])}z"


def _short(line: str) -> str:
    if len(line) <= _MOST_LETTERS:
        return line
    return f"{line[: _MOST_LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"


def _place(point: Point) -> str:
    return f"{_at(point.x):g} {_at(point.y):g}"


def _at(inches: float) -> float:
    return round(inches * _SCALE + _MARGIN, 1)


def _px(inches: float) -> float:
    return round(inches * _SCALE, 1)
