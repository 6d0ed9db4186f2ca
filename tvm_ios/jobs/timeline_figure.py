"""Stages of jobs as a picture: a row for each core, each device and each job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.errors import JobError
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.core.trace import Span
from tvm_ios.jobs.timeline import TimelineRows
from tvm_ios.report.agg_figure import agg_figure
from tvm_ios.report.palette import INK, WIRE
from tvm_ios.support.stage_gate import StageKind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Bar", "Row", "draw_timeline", "latest_run", "timeline_rows"]

PAUSE_S = 60.0
"""Seconds in which nothing ran, after which another run begins."""
_COLOURS = {
    StageKind.PREPARE: "#BBBBBB",
    StageKind.SEARCH: "#56B4E9",
    StageKind.BUILD: "#F0E442",
    StageKind.PROFILE: "#D55E00",
    StageKind.UPDATE: "#009E73",
}
"""Colours by Okabe and Ito (2008): told apart by the colour-blind, and by their lightness."""
_WIDTH, _ROW, _TOP, _BOTTOM = 11.0, 0.42, 0.55, 0.75
_HEIGHT = 0.78
"""Height of a bar, where its row is 1."""
_GAP = 0.5
"""Gap between cores, devices and jobs, in rows."""
_FONT = 13
_DOTS_PER_INCH = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stage in a row."""

    kind: StageKind
    since_s: float
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A core, a device or a job, and what it did."""

    label: str
    bars: tuple[Bar, ...]
    waits: tuple[tuple[float, float], ...] = ()
    """Times in which a job stood at its gate."""
    begins_group: bool = False
    """Whether it is the first of the cores, of the devices or of the jobs."""

    def halves(self) -> tuple[int | None, ...]:
        """Half of the row that each bar has, 0 or 1; None where it has no other beside it."""
        halves: list[int | None] = []
        for bar in self.bars:
            beside = [
                place
                for place, other in enumerate(self.bars)
                if other is not bar and other.since_s < bar.until_s and bar.since_s < other.until_s
            ]
            taken = {halves[place] for place in beside if place < len(halves)}
            halves.append((1 if 0 in taken else 0) if beside else None)
        return tuple(halves)


def latest_run(spans: Sequence[Span], now_s: float) -> tuple[Span, ...]:
    """Stages since nothing ran for a minute, in the order of their grants."""
    found: list[Span] = []
    end_s = float("-inf")
    for span in sorted(spans, key=lambda span: span.granted_s):
        if span.granted_s > end_s + PAUSE_S:
            found.clear()
        found.append(span)
        end_s = max(end_s, span.end_s(now_s))
    return tuple(found)


def timeline_rows(
    machine: Machine | None, spans: Sequence[Span], *, now_s: float
) -> tuple[Row, ...]:
    """Rows of the picture, from above; times count from the first request.

    Parameters are those of :func:`~tvm_ios.jobs.timeline.timeline_json`.
    """
    rows = TimelineRows.of(machine, spans)
    begin_s = rows.begin_s
    stays = [(span, stay) for span in spans for stay in span.stays(now_s)]

    def bar(span: Span, since_s: float, until_s: float) -> Bar:
        return Bar(kind=span.need.kind, since_s=since_s - begin_s, until_s=until_s - begin_s)

    def whole(span: Span) -> Bar:
        return bar(span, span.granted_s, span.end_s(now_s))

    cores = [
        Row(
            label=f"core {core}",
            bars=tuple(
                bar(span, stay.since_s, stay.until_s) for span, stay in stays if stay.core == core
            ),
        )
        for core in rows.cores
    ]
    devices = [
        Row(
            label=f"device {device}",
            bars=tuple(whole(span) for span in spans if span.device == device),
        )
        for device in rows.devices
    ]
    jobs = []
    for job in rows.jobs:
        own = [span for span in spans if span.job == job]
        waits = tuple((span.asked_s - begin_s, span.granted_s - begin_s) for span in own)
        jobs.append(Row(label=job, bars=tuple(map(whole, own)), waits=waits))
    return tuple(
        replace(row, begins_group=row is group[0])
        for group in (cores, devices, jobs)
        for row in group
    )


def draw_timeline(
    machine: Machine | None, spans: Sequence[Span], path: Path, *, now_s: float
) -> None:
    """Write a picture of the latest run; the path's ending chooses the format (png, pdf, svg).

    The other parameters are those of `timeline_rows`.
    """
    rows = timeline_rows(machine, latest_run(spans, now_s), now_s=now_s)
    if not any(row.bars for row in rows):
        raise JobError(f"no stage has run yet, so there is nothing to draw in {path}; try later")
    depth = len(rows) + _GAP * (sum(row.begins_group for row in rows) - 1)
    height = _TOP + depth * _ROW + _BOTTOM
    figure = agg_figure((_WIDTH, height), "a timeline")
    left = (0.35 + 0.105 * max(len(row.label) for row in rows)) / _WIDTH
    axes = figure.add_axes((left, _BOTTOM / height, 1 - left - 0.02, 1 - (_TOP + _BOTTOM) / height))
    _paint(axes, rows, depth)
    figure.legend(
        handles=_legend(rows),
        loc="upper center",
        bbox_to_anchor=((1 + left) / 2, 1.0),
        ncols=len(StageKind) + 1,
        frameon=False,
        fontsize=_FONT,
        handlelength=1.2,
        columnspacing=1.4,
    )
    try:
        figure.savefig(path, dpi=_DOTS_PER_INCH)
    except (OSError, ValueError) as error:
        raise JobError(
            f"cannot draw {path}: {error}; name a .png, .pdf or .svg in a folder that is there"
        ) from error


def _paint(axes: Axes, rows: Sequence[Row], depth: float) -> None:
    places: list[float] = []
    for row in rows:
        step = 1.0 + _GAP * row.begins_group if places else 0.5
        places.append((places[-1] if places else 0.0) + step)
    for place, row in zip(places, rows, strict=True):
        for since_s, until_s in row.waits:
            axes.plot([since_s, until_s], [place] * 2, color=WIRE, lw=1.6, solid_capstyle="butt")
        for bar, half in zip(row.bars, row.halves(), strict=True):
            top = place - _HEIGHT / 2 + (0.0 if half is None else half * _HEIGHT / 2)
            axes.broken_barh(
                [(bar.since_s, bar.until_s - bar.since_s)],
                (top, _HEIGHT if half is None else _HEIGHT / 2),
                facecolor=_COLOURS[bar.kind],
                edgecolor="none",
            )
    axes.set_yticks(places, [row.label for row in rows], fontsize=_FONT, color=INK)
    axes.set_ylim(depth, 0)
    axes.set_xlim(0, max(bar.until_s for row in rows for bar in row.bars))
    axes.set_xlabel("seconds", fontsize=_FONT, color=INK)
    axes.tick_params(axis="x", labelsize=_FONT, colors=INK)
    axes.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _legend(rows: Sequence[Row]) -> list[object]:
    from matplotlib.lines import Line2D  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    kinds = {bar.kind for row in rows for bar in row.bars}
    stages = [Patch(color=_COLOURS[kind], label=kind.value) for kind in StageKind if kind in kinds]
    return [*stages, Line2D([], [], color=WIRE, lw=1.6, label="waits")]
