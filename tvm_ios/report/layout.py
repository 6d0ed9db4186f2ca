"""Where everything of a schedule's picture goes, in inches from the top left corner.

Stages are bands from top to bottom, their groups columns inside the band, and long schedules wrap
into panels side by side. A value that is read later than the next stage runs through a slot of its
own in every stage between, so no line crosses a box; where a panel ends it goes through a tag with
the number of its operator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.report.placing import place_rows

__all__ = ["BOX_HEIGHT", "BOX_WIDTH", "TAG_SIZE", "Band", "Layout", "Point", "Wire", "lay_out"]

BOX_WIDTH = 1.02
BOX_HEIGHT = 0.34
TAG_SIZE = 0.22
_BOX_GAP = 0.14
_SLOT_WIDTH = 0.04
_ITEM_GAP = 0.12
_BAND_PAD = 0.09
_ROW_GAP = 0.24
_GUTTER = 0.92
_PANEL_GAP = 0.3
_SIDE = 0.06
"""From a box to a line that enters it from the side; one that leaves runs at twice that."""
_MAX_PANELS = 12
_WANTED_ASPECT = 1.35
"""Width by height."""


@dataclass(frozen=True, slots=True)
class Point:
    """A place on the page."""

    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Where a stage lies; groups are those of the schedule, placed from ``lanes``."""

    stage: int
    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """A line from ``start`` to ``end``, both ends vertical."""

    start: Point
    end: Point
    arrow: bool
    """It ends at an operator that reads the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A page."""

    width: float
    height: float
    bands: tuple[Band, ...]
    boxes: dict[int, Point]
    """Centre of each operator's box."""
    wires: tuple[Wire, ...]
    tags: tuple[tuple[int, Point], ...]
    """Operator and centre of each tag."""


@dataclass(slots=True, kw_only=True)
class _Row:
    """A stage, or the tags at an end of a panel (stage -1)."""

    stage: int
    groups: tuple[tuple[int, ...], ...]
    passing: tuple[int, ...]
    """Operators whose values run through this row."""
    centres: list[float] = field(default_factory=list)

    def widths(self) -> list[float]:
        slot = TAG_SIZE if self.stage < 0 else _SLOT_WIDTH
        lane = BOX_WIDTH + 4 * _SIDE
        return [lane] * len(self.groups) + [slot] * len(self.passing)

    def item_of(self, operator: int) -> int:
        """The item that holds this operator or passes its value on."""
        for item, group in enumerate(self.groups):
            if operator in group:
                return item
        return len(self.groups) + self.passing.index(operator)

    def height(self) -> float:
        if self.stage < 0:
            return TAG_SIZE
        longest = max(len(group) for group in self.groups)
        return longest * (BOX_HEIGHT + _BOX_GAP) - _BOX_GAP + 2 * _BAND_PAD


def lay_out(graph: OperatorGraph, schedule: InterOpSchedule) -> Layout:
    """Place a schedule on a page of about 4 by 3.

    Parameters
    ----------
    graph
        The operators.
    schedule
        Made for this graph.
    """
    heights = [_Row(stage=0, groups=s.groups, passing=()).height() for s in schedule.stages]
    pages = [
        _page(graph, schedule, cuts)
        for cuts in _distinct_cuts([height + _ROW_GAP for height in heights])
    ]
    return min(pages, key=lambda page: abs(math.log(page.width / page.height / _WANTED_ASPECT)))


def _distinct_cuts(heights: list[float]) -> list[list[int]]:
    """Panels as ranges between cuts: the most even split into 1, 2 ... panels."""
    found: list[list[int]] = []
    for panels in range(1, min(_MAX_PANELS, max(len(heights), 1)) + 1):
        cuts = _even_cuts(heights, panels)
        if cuts not in found:
            found.append(cuts)
    return found


def _even_cuts(heights: list[float], panels: int) -> list[int]:
    low, high = max(heights, default=0.0), sum(heights)
    for _ in range(40):
        middle = (low + high) / 2
        if len(_cuts_below(heights, middle)) - 1 <= panels:
            high = middle
        else:
            low = middle
    return _cuts_below(heights, high * (1 + 1e-9))


def _cuts_below(heights: list[float], limit: float) -> list[int]:
    cuts, total = [0], 0.0
    for index, height in enumerate(heights):
        if total and total + height > limit:
            cuts.append(index)
            total = 0.0
        total += height
    return [*cuts, len(heights)]


def _page(graph: OperatorGraph, schedule: InterOpSchedule, cuts: list[int]) -> Layout:
    page = _Page(graph, schedule)
    for first, last in pairwise(cuts):
        page.add_panel(first, last)
    return page.layout()


class _Page:
    """Collects panels from left to right."""

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
        return Layout(
            width=max(self._left - _PANEL_GAP, _GUTTER),
            height=max(self._height, BOX_HEIGHT),
            bands=tuple(self._bands),
            boxes=self._boxes,
            wires=tuple(self._wires),
            tags=tuple(self._tags),
        )

    def add_panel(self, first: int, last: int) -> None:
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
            top += row.height() + _ROW_GAP
        for index in range(len(rows) - 1):
            self._wire(rows[index], tops[index], rows[index + 1], tops[index + 1])
        self._height = max(self._height, top - _ROW_GAP)
        self._left += width + _PANEL_GAP

    def _rows(self, first: int, last: int) -> list[_Row]:
        rows = []
        for number in range(first, last):
            groups = self._schedule.stages[number].groups
            passing = self._alive(number, number + 1)
            rows.append(_Row(stage=number, groups=groups, passing=passing))
        if first > 0:
            rows.insert(0, _Row(stage=-1, groups=(), passing=self._alive(first, first)))
        if last < len(self._schedule.stages):
            rows.append(_Row(stage=-1, groups=(), passing=self._alive(last, last)))
        return rows

    def _alive(self, before: int, after: int) -> tuple[int, ...]:
        """Values made before one stage and read in another or later."""
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
        """Pairs (operator, reader in the lower row); a value that passes on reads itself."""
        made = [operator for group in upper.groups for operator in group]
        inside = {operator for group in lower.groups for operator in group}
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
        height = row.height()
        self._bands.append(
            Band(stage=row.stage, left=self._left, top=top, width=width, height=height)
        )
        for group, centre in zip(row.groups, row.centres, strict=False):
            used = len(group) * (BOX_HEIGHT + _BOX_GAP) - _BOX_GAP
            middle = top + (height - used) / 2 + BOX_HEIGHT / 2
            for operator in group:
                self._boxes[operator] = Point(centre, middle)
                middle += BOX_HEIGHT + _BOX_GAP
            self._wire_group(group)
        for centre in row.centres[len(row.groups) :]:
            self._wires.append(_straight(centre, top, top + height))

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
        """Enter a box below another one from the nearer side; returns where the line comes in."""
        side = -1 if origin <= box.x else 1
        edge = box.x + side * BOX_WIDTH / 2
        channel = edge + side * _SIDE
        self._wires.append(_straight(channel, top, box.y))
        self._wires.append(Wire(start=Point(channel, box.y), end=Point(edge, box.y), arrow=True))
        return Point(channel, top)

    def _side_exit(self, operator: int, bottom: float) -> Point:
        """Leave a box above another one to the right; returns where the line goes out."""
        box = self._boxes[operator]
        edge = box.x + BOX_WIDTH / 2
        channel = edge + 2 * _SIDE
        self._wires.append(Wire(start=Point(edge, box.y), end=Point(channel, box.y), arrow=False))
        self._wires.append(_straight(channel, box.y, bottom))
        return Point(channel, bottom)

    def _wire(self, upper: _Row, upper_top: float, lower: _Row, lower_top: float) -> None:
        bottom = upper_top + upper.height()
        for source, target in self._hops(upper, lower):
            start = self._exit(upper, source, bottom)
            passes = source == target
            end = self._entry(lower, target, lower_top, None if passes else start.x)
            self._wires.append(Wire(start=start, end=end, arrow=not passes and end.y > lower_top))

    def _exit(self, row: _Row, operator: int, bottom: float) -> Point:
        item = row.item_of(operator)
        if item >= len(row.groups):
            return Point(row.centres[item], bottom)
        box = self._boxes[operator]
        if operator == row.groups[item][-1]:
            return Point(box.x, box.y + BOX_HEIGHT / 2)
        return self._side_exit(operator, bottom)

    def _entry(self, row: _Row, operator: int, top: float, origin: float | None) -> Point:
        """Where a line from ``origin`` meets a row; a value that passes through has no origin."""
        item = row.item_of(operator)
        if origin is None:
            return Point(row.centres[item], top)
        box = self._boxes[operator]
        if operator == row.groups[item][0]:
            return Point(box.x, box.y - BOX_HEIGHT / 2)
        return self._side_entry(box, top, origin)


def _straight(x: float, top: float, bottom: float, *, arrow: bool = False) -> Wire:
    return Wire(start=Point(x, top), end=Point(x, bottom), arrow=arrow)
