"""Pictures of schedules as in the IOS paper: operators in their groups, groups in their stages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.errors import ArtifactError, HostError, OptionError
from tvm_ios.report.agg_figure import agg_figure
from tvm_ios.report.geometry import BOX_HEIGHT, BOX_WIDTH, TAG_SIZE, Frame, Layout, Point, Wire
from tvm_ios.report.labels import duration, operator_label, schedule_facts, stage_label
from tvm_ios.report.layout import lay_out
from tvm_ios.report.palette import FAMILIES, INK, WIRE, family_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_if_possible", "draw_schedule"]

_MARGIN = 0.25
_TITLE = 0.62
_LEGEND = 0.42
_MAX_PIXELS = 30_000
"""Pixels of the longer side: Agg draws at most 65,536, and viewers open half of that."""


_BAND = "#F2F2F2"
_MERGE = "#D55E00"
_BAR = "#0072B2"


def draw_schedule(
    graph: OperatorGraph,
    schedule: InterOpSchedule,
    path: Path | str,
    *,
    stage_latencies_ns: Sequence[int] | None = None,
    dots_per_inch: int = 130,
) -> None:
    """Write a PNG of a schedule.

    A box is an operator with its number in the graph, a band a stage, a column of a band a group. A
    merge stage has one hatched frame around its members.

    Parameters
    ----------
    path
        Path of the picture, whose ending chooses the format (png, pdf, svg).
    stage_latencies_ns
        Predicted nanoseconds of each stage, written and drawn as a bar beside it.
    dots_per_inch
        Resolution; a very large schedule gets less, so that the picture can be opened.

    Raises
    ------
    OptionError
        If there is not one latency a stage.
    """
    schedule.require_graph(graph)
    if stage_latencies_ns is not None and len(stage_latencies_ns) != len(schedule.stages):
        raise OptionError(
            f"{len(stage_latencies_ns)} latencies for {len(schedule.stages)} stages of "
            f"{graph.name!r}; give one latency a stage"
        )
    layout = lay_out(graph, schedule)
    width = max(layout.width, 7.0) + 2 * _MARGIN
    height = layout.height + _TITLE + _LEGEND + _MARGIN
    figure = agg_figure((width, height), "a schedule")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-_MARGIN, width - _MARGIN)
    axes.set_ylim(layout.height + _LEGEND + _MARGIN / 2, -_TITLE - _MARGIN / 2)
    painter = _Painter(axes)
    painter.title(graph, schedule)
    painter.bands(layout, schedule, stage_latencies_ns)
    for frame in layout.frames:
        painter.frame(frame)
    for wire in layout.wires:
        painter.wire(wire)
    for operator, point in layout.tags:
        painter.tag(operator, point)
    for index, point in layout.boxes.items():
        painter.box(index, graph.operators[index], point)
    painter.legend(graph, layout, layout.height + 0.2, bars=stage_latencies_ns is not None)
    figure.savefig(path, dpi=min(dots_per_inch, int(_MAX_PIXELS / max(width, height))))


def draw_if_possible(
    graph: OperatorGraph,
    schedule: InterOpSchedule,
    path: Path,
    stage_ns: Sequence[int] | None = None,
) -> str:
    """Draw a schedule; return the name of the picture, nothing where matplotlib is missing.

    Parameters are those of :func:`draw_schedule`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draw_schedule(graph, schedule, path, stage_latencies_ns=stage_ns)
    except HostError:
        return ""
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error}; choose another --output") from error
    return path.name


class _Painter:
    def __init__(self, axes: Axes) -> None:
        self._axes = axes

    def title(self, graph: OperatorGraph, schedule: InterOpSchedule) -> None:
        self._axes.text(0, -_TITLE, graph.name, size=14, weight="bold", color=INK, va="top")
        self._axes.text(
            0,
            -_TITLE + 0.29,
            f"schedule: {schedule.scheduler}; {', '.join(schedule_facts(graph, schedule))}",
            size=9,
            color=INK,
            va="top",
        )
        if schedule.priced_by:
            text = f"by the {schedule.priced_by}"
            self._axes.text(0, -_TITLE + 0.45, text, size=7, color=INK, va="top")

    def bands(
        self,
        layout: Layout,
        schedule: InterOpSchedule,
        latencies_ns: Sequence[int] | None,
    ) -> None:
        longest = max(latencies_ns or (1,)) or 1
        for band in layout.bands:
            self._rectangle(band.left, band.top, band.width, band.height, fill=_BAND)
            latency = None if latencies_ns is None else latencies_ns[band.stage]
            text = stage_label(schedule, band.stage)
            if latency is not None:
                text.append(duration(latency))
            middle = band.top + band.height / 2
            self._axes.text(
                band.left + 0.07, middle, "\n".join(text), size=6.5, color=INK, va="center"
            )
            if latency is not None:
                length = band.height * latency / longest
                bottom = band.top + band.height
                self._rectangle(band.left, bottom - length, 0.045, length, fill=_BAR)

    def frame(self, frame: Frame) -> None:
        self._rectangle(
            frame.left,
            frame.top,
            frame.width,
            frame.height,
            fill="white",
            edge=_MERGE if frame.merge else "#9A9A9A",
            hatch="////" if frame.merge else "",
        )

    def box(self, index: int, operator: Operator, point: Point) -> None:
        left, top = point.x - BOX_WIDTH / 2, point.y - BOX_HEIGHT / 2
        fill = family_of(operator.kind).fill
        line = "-" if operator.schedulable else "--"
        self._rectangle(left, top, BOX_WIDTH, BOX_HEIGHT, fill=fill, edge=INK, line=line, layer=4)
        self._axes.text(left + 0.03, top + 0.02, str(index), size=5, color=INK, va="top", zorder=5)
        self._axes.text(
            point.x,
            point.y + 0.015,
            operator_label(operator),
            size=6.3,
            color=INK,
            ha="center",
            va="center",
            zorder=5,
            linespacing=1.05,
        )

    def tag(self, operator: int, point: Point) -> None:
        from matplotlib.patches import Circle  # noqa: PLC0415

        self._axes.add_patch(
            Circle(
                (point.x, point.y),
                TAG_SIZE / 2,
                facecolor="white",
                edgecolor=WIRE,
                linewidth=0.7,
                zorder=4,
            )
        )
        self._axes.text(
            point.x, point.y, str(operator), size=5, ha="center", va="center", zorder=5, color=INK
        )

    def wire(self, wire: Wire) -> None:
        from matplotlib.patches import FancyArrowPatch  # noqa: PLC0415
        from matplotlib.path import Path as Curve  # noqa: PLC0415

        start, end = wire.start, wire.end
        bend = (end.y - start.y) / 2
        points = [(start.x, start.y), (start.x, start.y + bend)]
        points += [(end.x, end.y - bend), (end.x, end.y)]
        codes = [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4]
        straight = start.x == end.x or start.y == end.y
        curve = Curve(points[::3]) if straight else Curve(points, codes)
        self._axes.add_patch(
            FancyArrowPatch(
                path=curve,
                arrowstyle="-|>,head_length=2.4,head_width=1.3" if wire.arrow else "-",
                linewidth=0.7,
                color=WIRE,
                shrinkA=0,
                shrinkB=0,
                zorder=3,
                capstyle="butt",
            )
        )

    def legend(self, graph: OperatorGraph, layout: Layout, y: float, *, bars: bool) -> None:
        x = 0.0
        used = {family_of(operator.kind).label for operator in graph.operators}
        for family in FAMILIES:
            if family.label in used:
                self._rectangle(x, y, 0.2, 0.14, fill=family.fill, edge=INK)
                x = self._legend_text(x + 0.26, y, family.label)
        if bars:
            self._rectangle(x + 0.1, y, 0.045, 0.14, fill=_BAR)
            x = self._legend_text(x + 0.2, y, "predicted latency")
        if layout.tags:
            self._legend_text(x, y, "\N{WHITE CIRCLE} value goes on in the next column")

    def _legend_text(self, x: float, y: float, text: str) -> float:
        """Write a text and return the place of the next one."""
        self._axes.text(x, y + 0.07, text, size=7, va="center", color=INK)
        return x + 0.2 + 0.062 * len(text)

    def _rectangle(
        self,
        left: float,
        top: float,
        width: float,
        height: float,
        *,
        fill: str,
        edge: str = "none",
        hatch: str = "",
        line: str = "-",
        layer: int = 1,
    ) -> None:
        from matplotlib.patches import Rectangle  # noqa: PLC0415

        self._axes.add_patch(
            Rectangle(
                (left, top),
                width,
                height,
                facecolor=fill,
                edgecolor=edge,
                hatch=hatch,
                linestyle=line,
                linewidth=0.7,
                zorder=layer,
            )
        )
