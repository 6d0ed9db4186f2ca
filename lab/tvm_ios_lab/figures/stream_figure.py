"""Picture of a plan on the streams of a GPU: launches in rows, and the events between them.

All launches are equally wide: the picture shows order, not time. A launch stands as far left as the
launches it comes after allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.plan.stream_order import CALLER, Step, StepKind, StreamProgram, order_on_streams
from tvm_ios.report.agg_figure import agg_figure
from tvm_ios.report.geometry import Point
from tvm_ios.report.palette import FAMILIES, INK, family_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.path import Path as Curve

__all__ = ["EventEdge", "StreamLayout", "draw_streams", "lay_out_streams"]

_PITCH, _WIDTH = 1.2, 0.82
"""Inches from one column to the next, and of a box."""
_ROW, _HEIGHT = 0.9, 0.42
_LEFT, _TOP, _BOTTOM = 0.95, 0.6, 0.62
_END = 0.5
"""Width of the boxes of fork and join, in inches."""
_RADIUS = 0.07
_LEVELS = 5
"""Number of arrows that run beside each other between two rows."""
_MAX_PIXELS = 30_000
_STREAM_INKS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
"""Colours of arrows by the stream whose event they are (Okabe and Ito, 2008)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventEdge:
    """Wait for an event: from where the event is recorded to the waiting launch."""

    event: int
    source: int | None
    """Launch that records the event; None for the fork from the caller's stream."""
    target: int | None
    """Launch that waits; None for the join to the caller's stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLayout:
    """Places of launches and events, in rows and columns."""

    streams: int
    columns: int
    places: Mapping[int, tuple[int, int]]
    """Stream and column of every launch; the caller's stream and the fork's column are 0."""
    edges: tuple[EventEdge, ...]


def lay_out_streams(program: StreamProgram) -> StreamLayout:
    """Layout of a program: each launch has its stream and the first possible column."""
    places: dict[int, tuple[int, int]] = {}
    edges: list[EventEdge] = []
    last: dict[int, int | None] = {}
    recorded: dict[int, int | None] = {}
    waiting: dict[int, list[Step]] = {}
    for step in program.steps:
        if step.kind is StepKind.RECORD:
            recorded[step.index] = last.get(step.stream)
        elif step.kind is StepKind.WAIT:
            waiting.setdefault(step.stream, []).append(step)
        else:
            sources = [(wait.index, recorded[wait.index]) for wait in waiting.pop(step.stream, [])]
            before = [last.get(step.stream), *(source for _, source in sources)]
            column = 1 + max(0 if each is None else places[each][1] for each in before)
            places[step.index] = (step.stream, column)
            edges += [EventEdge(event=e, source=s, target=step.index) for e, s in sources]
            last[step.stream] = step.index
    joins = waiting.get(CALLER, [])
    edges += [EventEdge(event=w.index, source=recorded[w.index], target=None) for w in joins]
    return StreamLayout(
        streams=program.num_streams,
        columns=2 + max((column for _, column in places.values()), default=0),
        places=places,
        edges=tuple(edges),
    )


def draw_streams(
    plan: ExecutionPlan, path: Path | str, *, title: str, dots_per_inch: int = 130
) -> None:
    """Write a picture of a plan as :func:`~tvm_ios.plan.stream_order.order_on_streams` orders it.

    Parameters
    ----------
    plan
        A plan for a GPU; its lanes are streams.
    path
        Path of the picture, whose ending chooses the format (png, pdf, svg).
    title
        Text above the picture.
    dots_per_inch
        Resolution; a very long plan gets less, so that the picture can be opened.
    """
    layout = lay_out_streams(order_on_streams(plan))
    width = _LEFT + layout.columns * _PITCH
    height = _TOP + (layout.streams + 1) * _ROW + _BOTTOM
    figure = agg_figure((width, height), "a plan")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    painter = _Painter(axes, layout)
    painter.title(title, plan, width)
    painter.rows(width)
    for edge in layout.edges:
        painter.edge(edge)
    for launch, place in layout.places.items():
        painter.launch(plan.launches[launch].operator, place)
    painter.legend(plan, height - 0.3)
    figure.savefig(path, dpi=min(dots_per_inch, int(_MAX_PIXELS / max(width, height))))


class _Painter:
    def __init__(self, axes: Axes, layout: StreamLayout) -> None:
        self._axes = axes
        self._layout = layout
        self._named: set[int] = set()
        self._corridors: dict[tuple[int, int], list[tuple[int, int, int]]] = {}

    def title(self, text: str, plan: ExecutionPlan, width: float) -> None:
        layout = self._layout
        events = len({edge.event for edge in layout.edges})
        facts = (
            f"{len(plan.launches)} launches on {layout.streams} streams, "
            f"{events} events, {len(layout.edges)} waits"
        )
        self._text(0.15, 0.2, text, size=11, weight="bold", ha="left")
        self._text(0.15, 0.42, facts, size=8, ha="left")
        self._text(width - 0.15, 0.2, "order, not time", size=7, ha="right")

    def rows(self, width: float) -> None:
        for stream in range(self._layout.streams + 1):
            y = self._y(stream)
            name = "caller" if stream == CALLER else f"stream {stream}"
            ink = INK if stream == CALLER else _ink(stream)
            self._text(0.15, y, name, size=8, ha="left", color=ink, weight="bold")
            self._axes.plot((_LEFT, width - 0.15), (y, y), color="#DDDDDD", linewidth=5, zorder=0)
        for column, name in ((0, "fork"), (self._layout.columns - 1, "join")):
            self._box(self._x(column), self._y(CALLER), _END, name, fill="white")

    def launch(self, operator: str, place: tuple[int, int]) -> None:
        stream, column = place
        fill = family_of(operator).fill
        self._box(self._x(column), self._y(stream), _WIDTH, _label(operator), fill=fill)

    def edge(self, edge: EventEdge) -> None:
        from matplotlib.patches import FancyArrowPatch  # noqa: PLC0415

        places, last = self._layout.places, self._layout.columns - 1
        stream, column = (CALLER, 0) if edge.source is None else places[edge.source]
        other, to_column = (CALLER, last) if edge.target is None else places[edge.target]
        half = _END / 2 if edge.source is None else _WIDTH / 2
        to_half = _END / 2 if edge.target is None else _WIDTH / 2
        down = 1 if other > stream else -1
        # Several events into one box end beside each other, by the streams they come from.
        start = Point(self._x(column) + half, self._y(stream) + down * 0.08)
        offset = 0.04 + 0.04 * abs(other - stream)
        end = Point(self._x(to_column) - to_half, self._y(other) - down * offset)
        points = [start, end]
        if to_column > column + 1:
            # Through the gaps between columns and the corridor beside the row that waits.
            shift = 0.05 * self._level((other, down), column, to_column)
            corridor = self._y(other) - down * (_HEIGHT / 2 + 0.1 + shift)
            first = start.x + 0.07 + 0.06 * (stream % _LEVELS)
            second = end.x - 0.2 + shift / 2
            turns = [Point(first, start.y), Point(first, corridor)]
            points[1:1] = [*turns, Point(second, corridor), Point(second, end.y)]
        ink = INK if stream == CALLER else _ink(stream)
        self._axes.add_patch(
            FancyArrowPatch(
                path=_rounded(points),
                arrowstyle="-|>,head_length=3,head_width=1.6",
                linewidth=1.0,
                color=ink,
                shrinkA=0,
                shrinkB=0,
                zorder=2,
            )
        )
        if edge.event not in self._named:
            self._named.add(edge.event)
            x, y = start.x + 0.05, start.y - down * 0.07
            self._text(x, y, str(edge.event), size=5.5, color=ink, zorder=4)

    def _level(self, corridor: tuple[int, int], begin: int, end: int) -> int:
        """First level of a corridor that no other arrow has between two columns."""
        others = self._corridors.setdefault(corridor, [])
        taken = {level for low, high, level in others if low < end and begin < high}
        free = next(level for level in range(len(others) + 1) if level not in taken)
        others.append((begin, end, free))
        return free % _LEVELS

    def legend(self, plan: ExecutionPlan, y: float) -> None:
        x = 0.15
        used = {family_of(launch.operator).label for launch in plan.launches}
        for family in FAMILIES:
            if family.label in used:
                self._rectangle(x, y - 0.07, 0.2, 0.14, fill=family.fill)
                self._text(x + 0.27, y, family.label, size=7, ha="left")
                x += 0.5 + 0.062 * len(family.label)
        arrows = "arrow: an event, recorded where it begins and awaited where it ends"
        self._text(x, y, arrows, size=7, ha="left")

    def _x(self, column: int) -> float:
        return _LEFT + (column + 0.5) * _PITCH

    def _y(self, stream: int) -> float:
        return _TOP + (stream + 0.5) * _ROW

    def _box(self, x: float, y: float, width: float, text: str, *, fill: str) -> None:
        self._rectangle(x - width / 2, y - _HEIGHT / 2, width, _HEIGHT, fill=fill)
        self._text(x, y, text, size=6.5, zorder=5)

    def _rectangle(
        self, left: float, top: float, width: float, height: float, *, fill: str
    ) -> None:
        from matplotlib.patches import Rectangle  # noqa: PLC0415

        self._axes.add_patch(
            Rectangle(
                (left, top), width, height, facecolor=fill, edgecolor=INK, linewidth=0.7, zorder=3
            )
        )

    def _text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float,
        ha: str = "center",
        color: str = INK,
        weight: str = "normal",
        zorder: int = 5,
    ) -> None:
        self._axes.text(
            x, y, text, size=size, ha=ha, va="center", color=color, weight=weight, zorder=zorder
        )


def _rounded(points: Sequence[Point]) -> Curve:
    """Line through points, with round corners."""
    from matplotlib.path import Path as Curve  # noqa: PLC0415

    vertices, codes = [(points[0].x, points[0].y)], [Curve.MOVETO]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        into, out = _near(corner, before), _near(corner, after)
        vertices += [into, (corner.x, corner.y), out]
        codes += [Curve.LINETO, Curve.CURVE3, Curve.CURVE3]
    return Curve([*vertices, (points[-1].x, points[-1].y)], [*codes, Curve.LINETO])


def _near(corner: Point, other: Point) -> tuple[float, float]:
    """Point where a rounded corner begins, on the way to another point."""
    length = hypot(other.x - corner.x, other.y - corner.y)
    part = min(_RADIUS, length / 2) / length if length else 0.0
    return corner.x + part * (other.x - corner.x), corner.y + part * (other.y - corner.y)


def _ink(stream: int) -> str:
    return _STREAM_INKS[(stream - 1) % len(_STREAM_INKS)]


def _label(operator: str) -> str:
    """Operator's name in two lines."""
    kind, _, number = operator.rpartition("_")
    if not number.isdigit():
        return operator
    words = kind.replace("_", " ").replace("conv2d", "conv").replace("pool2d", "pool")
    words = words.replace("depthwise conv", "dw conv").replace("concatenate", "concat")
    return f"{words.replace('global avg pool', 'gl. avg pool')}\n{number}"
