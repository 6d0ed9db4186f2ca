"""Page of a schedule's picture, placed panel by panel.

A value that is read later than in the next stage runs through a slot of its own in every stage
between, so no line crosses a box. Where a panel ends it goes through a tag with the number of its
operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.report.geometry import (
    BOX_HEIGHT,
    BOX_WIDTH,
    TAG_SIZE,
    Band,
    Frame,
    Layout,
    Point,
    Wire,
)
from tvm_ios.report.placing import place_rows

__all__ = ["ROW_GAP", "Page", "stage_height"]

ROW_GAP = 0.24
"""Inches between stages, where lines bend."""
_BOX_GAP = 0.14
_SLOT_WIDTH = 0.04
_ITEM_GAP = 0.12
_BAND_PAD = 0.09
_GUTTER = 0.92
"""Inches for the label of a stage."""
_PANEL_GAP = 0.3
_FRAME_PAD = 0.045
_SIDE = 0.06
"""Inches from a box to a line that enters from the side; a line that leaves has twice that."""

_Cluster = tuple[tuple[int, ...], ...]
"""Groups that stay side by side: one group, or all that a stage merges."""


def stage_height(stage: Stage) -> float:
    """Height of a stage's band in inches."""
    longest = max(len(group) for group in stage.groups)
    return longest * (BOX_HEIGHT + _BOX_GAP) - _BOX_GAP + 2 * _BAND_PAD


def _clusters(stage: Stage) -> tuple[_Cluster, ...]:
    if stage.is_merge:
        return (stage.groups,)
    return tuple((group,) for group in stage.groups)


@dataclass(slots=True, kw_only=True)
class _Row:
    """Row of a stage, or of the tags at an end of a panel (stage -1)."""

    stage: int
    clusters: tuple[_Cluster, ...]
    passing: tuple[int, ...]
    """Operators whose values run through this row."""
    centres: list[float] = field(default_factory=list)

    def widths(self) -> list[float]:
        slot = TAG_SIZE if self.stage < 0 else _SLOT_WIDTH
        lane = BOX_WIDTH + 4 * _SIDE
        return [lane * len(cluster) for cluster in self.clusters] + [slot] * len(self.passing)

    def item_of(self, operator: int) -> int:
        """Index of the item that holds an operator or passes its value on."""
        for item, cluster in enumerate(self.clusters):
            if any(operator in group for group in cluster):
                return item
        return len(self.clusters) + self.passing.index(operator)

    def group_of(self, operator: int) -> tuple[int, ...] | None:
        """Group that holds an operator; None if its value passes through."""
        groups = (group for cluster in self.clusters for group in cluster)
        return next((group for group in groups if operator in group), None)

    def operators(self) -> list[int]:
        """Operators of the stage, cluster by cluster."""
        return [index for cluster in self.clusters for group in cluster for index in group]


class Page:
    """Page under construction, with panels from left to right."""

    def __init__(self, graph: OperatorGraph, schedule: InterOpSchedule) -> None:
        self._graph = graph
        self._schedule = schedule
        self._stage_of = {
            operator: number
            for number, stage in enumerate(schedule.stages)
            for operator in stage.operators
        }
        self._readers: list[list[int]] = [[] for _ in graph.operators]
        for index, operator in enumerate(graph.operators):
            for predecessor in operator.predecessors:
                self._readers[predecessor].append(index)
        self._left = 0.0
        self._height = 0.0
        self._bands: list[Band] = []
        self._boxes: dict[int, Point] = {}
        self._wires: list[Wire] = []
        self._tags: list[tuple[int, Point]] = []

    def layout(self) -> Layout:
        """Layout of the panels added so far."""
        return Layout(
            width=max(self._left - _PANEL_GAP, _GUTTER),
            height=max(self._height, BOX_HEIGHT),
            bands=tuple(self._bands),
            frames=tuple(self._frames()),
            boxes=self._boxes,
            wires=tuple(self._wires),
            tags=tuple(self._tags),
        )

    def _frames(self) -> Iterator[Frame]:
        for stage in self._schedule.stages:
            if len(stage.groups) < 2:
                continue
            for operators in (stage.operators,) if stage.is_merge else stage.groups:
                points = [self._boxes[operator] for operator in operators]
                left = min(point.x for point in points) - BOX_WIDTH / 2 - _FRAME_PAD
                right = max(point.x for point in points) + BOX_WIDTH / 2 + _FRAME_PAD
                top = min(point.y for point in points) - BOX_HEIGHT / 2 - _FRAME_PAD
                bottom = max(point.y for point in points) + BOX_HEIGHT / 2 + _FRAME_PAD
                yield Frame(
                    left=left,
                    top=top,
                    width=right - left,
                    height=bottom - top,
                    merge=stage.is_merge,
                )

    def add_panel(self, first: int, last: int) -> None:
        """Add a panel with stages ``first`` to ``last`` (not included), right of the others."""
        rows = self._rows(first, last)
        links = [self._links(upper, lower) for upper, lower in pairwise(rows)]
        placed = place_rows([row.widths() for row in rows], links, gap=_ITEM_GAP)
        inner = 0.0
        for row, centres in zip(rows, placed, strict=True):
            for centre, width in zip(centres, row.widths(), strict=True):
                inner = max(inner, centre + width / 2)
            row.centres = [self._left + _GUTTER + _BAND_PAD + centre for centre in centres]
        width = _GUTTER + inner + 2 * _BAND_PAD
        top, tops = 0.0, []
        for row in rows:
            tops.append(top)
            self._place(row, top, width)
            top += self._height_of(row) + ROW_GAP
        for index in range(len(rows) - 1):
            self._wire(rows[index], tops[index], rows[index + 1], tops[index + 1])
        self._height = max(self._height, top - ROW_GAP)
        self._left += width + _PANEL_GAP

    def _rows(self, first: int, last: int) -> list[_Row]:
        rows = []
        for number in range(first, last):
            stage, passing = self._schedule.stages[number], self._alive(number, number + 1)
            rows.append(_Row(stage=number, clusters=_clusters(stage), passing=passing))
        if first > 0:
            rows.insert(0, _Row(stage=-1, clusters=(), passing=self._alive(first, first)))
        if last < len(self._schedule.stages):
            rows.append(_Row(stage=-1, clusters=(), passing=self._alive(last, last)))
        return rows

    def _alive(self, before: int, after: int) -> tuple[int, ...]:
        """Operators whose values are made before one stage and read in another or later."""
        return tuple(
            operator
            for operator, readers in enumerate(self._readers)
            if self._stage_of[operator] < before
            and any(self._stage_of[reader] >= after for reader in readers)
        )

    def _links(self, upper: _Row, lower: _Row) -> list[tuple[int, int]]:
        return [
            (upper.item_of(source), lower.item_of(target))
            for source, target in self._hops(upper, lower)
        ]

    def _hops(self, upper: _Row, lower: _Row) -> list[tuple[int, int]]:
        """Pairs of an operator and its reader in the lower row; a passing value reads itself."""
        made, inside = upper.operators(), set(lower.operators())
        return [
            (source, target)
            for source in (*made, *upper.passing)
            for target in (*self._readers[source], source)
            if target in inside or (target == source and source in lower.passing)
        ]

    def _place(self, row: _Row, top: float, width: float) -> None:
        if row.stage < 0:
            middle = top + TAG_SIZE / 2
            self._tags += [
                (operator, Point(centre, middle))
                for operator, centre in zip(row.passing, row.centres, strict=True)
            ]
            return
        height = self._height_of(row)
        self._bands.append(
            Band(stage=row.stage, left=self._left, top=top, width=width, height=height)
        )
        for cluster, centre in zip(row.clusters, row.centres, strict=False):
            lane = BOX_WIDTH + 4 * _SIDE
            left = centre - lane * (len(cluster) - 1) / 2
            for column, group in enumerate(cluster):
                self._place_group(group, left + column * lane, top + height / 2)
        for centre in row.centres[len(row.clusters) :]:
            self._wires.append(_straight(centre, top, top + height))

    def _place_group(self, group: tuple[int, ...], x: float, middle: float) -> None:
        pitch = BOX_HEIGHT + _BOX_GAP
        first = middle - pitch * (len(group) - 1) / 2
        for place, operator in enumerate(group):
            self._boxes[operator] = Point(x, first + place * pitch)
        self._wire_group(group)

    def _height_of(self, row: _Row) -> float:
        return TAG_SIZE if row.stage < 0 else stage_height(self._schedule.stages[row.stage])

    def _wire_group(self, group: tuple[int, ...]) -> None:
        for place, operator in enumerate(group):
            for earlier in group[:place]:
                if operator not in self._readers[earlier]:
                    continue
                start, end = self._boxes[earlier], self._boxes[operator]
                if earlier == group[place - 1]:
                    above, below = start.y + BOX_HEIGHT / 2, end.y - BOX_HEIGHT / 2
                    self._wires.append(_straight(start.x, above, below, arrow=True))
                else:
                    self._side_exit(earlier, end.y)
                    right = Point(end.x + BOX_WIDTH / 2, end.y)
                    left = Point(right.x + 2 * _SIDE, end.y)
                    self._wires.append(Wire(start=left, end=right, arrow=True))

    def _side_entry(self, box: Point, top: float, origin: float) -> Point:
        """Draw the way into a box below another, from the nearer side; return its begin."""
        side = -1 if origin <= box.x else 1
        edge = box.x + side * BOX_WIDTH / 2
        channel = edge + side * _SIDE
        self._wires.append(_straight(channel, top, box.y))
        self._wires.append(Wire(start=Point(channel, box.y), end=Point(edge, box.y), arrow=True))
        return Point(channel, top)

    def _side_exit(self, operator: int, bottom: float) -> Point:
        """Draw the way out of a box above another, to the right; return its end."""
        box = self._boxes[operator]
        edge = box.x + BOX_WIDTH / 2
        channel = edge + 2 * _SIDE
        self._wires.append(Wire(start=Point(edge, box.y), end=Point(channel, box.y), arrow=False))
        self._wires.append(_straight(channel, box.y, bottom))
        return Point(channel, bottom)

    def _wire(self, upper: _Row, upper_top: float, lower: _Row, lower_top: float) -> None:
        bottom = upper_top + self._height_of(upper)
        for source, target in self._hops(upper, lower):
            start = self._exit(upper, source, bottom)
            passes = source == target
            end = self._entry(lower, target, lower_top, None if passes else start.x)
            self._wires.append(Wire(start=start, end=end, arrow=False))

    def _exit(self, row: _Row, operator: int, bottom: float) -> Point:
        group = row.group_of(operator)
        if group is None:
            return Point(row.centres[row.item_of(operator)], bottom)
        box = self._boxes[operator]
        if operator == group[-1]:
            self._wires.append(_straight(box.x, box.y + BOX_HEIGHT / 2, bottom))
            return Point(box.x, bottom)
        return self._side_exit(operator, bottom)

    def _entry(self, row: _Row, operator: int, top: float, origin: float | None) -> Point:
        """Point where a line from ``origin`` (None for a value that passes on) meets a row."""
        group = row.group_of(operator)
        if origin is None or group is None:
            return Point(row.centres[row.item_of(operator)], top)
        box = self._boxes[operator]
        if operator == group[0]:
            self._wires.append(_straight(box.x, top, box.y - BOX_HEIGHT / 2, arrow=True))
            return Point(box.x, top)
        return self._side_entry(box, top, origin)


def _straight(x: float, top: float, bottom: float, *, arrow: bool = False) -> Wire:
    return Wire(start=Point(x, top), end=Point(x, bottom), arrow=arrow)
