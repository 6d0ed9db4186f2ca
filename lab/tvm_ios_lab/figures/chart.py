"""Charts of experiments: bars, lines and matrices as panels of one picture, in one style.

Colours are those of Okabe and Ito (2008), which the colour-blind tell apart; series differ in a
second way as well, and published numbers are never bars: they are open diamonds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tvm_ios.errors import ArtifactError, OptionError
from tvm_ios.report.agg_figure import agg_figure
from tvm_ios.report.palette import INK, WIRE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Bars", "Lines", "Matrix", "Panel", "Series", "draw_panels"]

_COLOURS = ("#999999", "#56B4E9", "#E69F00", "#009E73", "#0072B2", "#CC79A7", "#D55E00", "#F0E442")
"""Colours of series, in order (the palette of Okabe and Ito, 2008)."""

_WIDTH, _HEIGHT = 7.0, 3.5
"""Width and height of a panel in inches."""
_DOTS_PER_INCH = 150
_MARKS = ("o", "s", "^", "v", "P", "X", "<", ">")
_HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++", "oo")
_LEGEND_COLUMNS = 3
_MOST_GROUPS = 5
"""Number of groups above which their names are small."""
_MOST_UPRIGHT = 10
"""Number of groups above which their names are slanted, on one line each."""
_SMALL = 10
_BAR_SPACE = 0.82
"""Share of a group's width that its bars take."""


class Panel(Protocol):
    """A set of axes in a picture."""

    def draw_on(self, axes: Axes) -> None:
        """Draw everything, with the title above."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Values of one thing, by group of bars or by place on a line; None where there is no value."""

    name: str
    values: tuple[float | None, ...]
    published: bool = False
    """True draws open diamonds, each at the bar of the series with the same place among the
    others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Groups of bars, a bar for each series."""

    title: str
    y_label: str
    groups: tuple[str, ...]
    series: tuple[Series, ...]

    def __post_init__(self) -> None:
        _require_lengths(self.title, self.groups, self.series)

    def draw_on(self, axes: Axes) -> None:
        """Draw bars side by side, and published values over the bars they belong to."""
        bars = [series for series in self.series if not series.published]
        width = _BAR_SPACE / max(1, len(bars))
        for place, series in enumerate(bars):
            offset = (place + 0.5) * width - _BAR_SPACE / 2
            shown = [(group + offset, v) for group, v in enumerate(series.values) if v is not None]
            axes.bar(
                [x for x, _ in shown],
                [value for _, value in shown],
                width,
                label=series.name,
                color=_COLOURS[place % len(_COLOURS)],
                edgecolor=INK,
                linewidth=0.6,
                hatch=_HATCHES[place % len(_HATCHES)],
            )
        points = [
            (group + (place + 0.5) * width - _BAR_SPACE / 2, value)
            for place, series in enumerate(each for each in self.series if each.published)
            for group, value in enumerate(series.values)
            if value is not None
        ]
        if points:
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                linestyle="none",
                marker="D",
                markersize=6,
                markerfacecolor="white",
                markeredgecolor=INK,
                markeredgewidth=1.3,
                label="published",
                zorder=5,
            )
        _name_groups(axes, self.groups)
        axes.set_ylabel(self.y_label)
        _leave_room(axes)
        axes.grid(axis="y", color="#DDDDDD", linewidth=0.8)
        names = len(bars) + bool(points)
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(-0.02, 0.98),
            ncols=_LEGEND_COLUMNS,
            frameon=False,
            fontsize=_SMALL,
            columnspacing=1.0,
            handlelength=1.4,
        ).set_in_layout(False)  # a long one makes no axes narrower
        _give_title(axes, self.title, legend_rows=-(-names // _LEGEND_COLUMNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Points that are joined by lines, one line for each series."""

    title: str
    x_label: str
    y_label: str
    x: tuple[float, ...]
    series: tuple[Series, ...]
    x_ticks: tuple[str, ...] = ()
    """Words for all places, which then stand at equal distances."""
    marks: bool = True
    """True marks every point; False draws steps that hold until the next place."""

    def __post_init__(self) -> None:
        _require_lengths(self.title, self.x, self.series)

    def draw_on(self, axes: Axes) -> None:
        """Draw a line for each series; published ones are dashed, with open diamonds."""
        places = range(len(self.x)) if self.x_ticks else self.x
        measured = [series.name for series in self.series if not series.published]
        for series in self.series:
            names = list(dict.fromkeys((*measured, *(each.name for each in self.series))))
            place = names.index(series.name)
            shown = [(x, v) for x, v in zip(places, series.values, strict=True) if v is not None]
            mark = "D" if series.published else _MARKS[place % len(_MARKS)]
            axes.plot(
                [x for x, _ in shown],
                [value for _, value in shown],
                label=f"{series.name}, published" if series.published else series.name,
                color=_COLOURS[place % len(_COLOURS)],
                linestyle="--" if series.published else "-",
                marker=mark if self.marks else None,
                markersize=7,
                markerfacecolor="white" if series.published else None,
                linewidth=2,
                drawstyle="default" if self.marks else "steps-post",
            )
        if self.x_ticks:
            axes.set_xticks(list(places), self.x_ticks)
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        _leave_room(axes)
        axes.grid(color="#DDDDDD", linewidth=0.8)
        axes.legend(frameon=False)
        _give_title(axes, self.title)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Numbers in rows and columns; the darker a field, the farther above the best of its row."""

    title: str
    row_label: str
    column_label: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    published: tuple[tuple[float | None, ...], ...] = ()
    """Published numbers, written under the others in brackets; empty where there are none."""
    digits: int = 2

    def __post_init__(self) -> None:
        for values in (self.values, self.published or self.values):
            if [len(row) for row in values] != [len(self.columns)] * len(self.rows):
                raise OptionError(
                    f"the matrix {self.title!r} is not {len(self.rows)} by {len(self.columns)}; "
                    "give a number, or None, for each field"
                )

    def draw_on(self, axes: Axes) -> None:
        """Draw fields with their numbers; the best of each row is bold."""
        best = [min((v for v in row if v is not None), default=1.0) for row in self.values]
        shades = [
            [0.0 if v is None else v / least - 1 for v in row]
            for row, least in zip(self.values, best, strict=True)
        ]
        most = max(0.1, *(max(row) for row in shades))
        axes.imshow(shades, cmap="Blues", vmin=0, vmax=2 * most, aspect="auto")
        for i, row in enumerate(self.values):
            for j, value in enumerate(row):
                text = "-" if value is None else f"{value:.{self.digits}f}"
                told = self.published[i][j] if self.published else None
                text += "" if told is None else f"\n({told:.{self.digits}f})"
                weight = "bold" if value == best[i] else "normal"
                axes.text(j, i, text, ha="center", va="center", color=INK, weight=weight)
        columns = [column.replace(", ", ",\n") for column in self.columns]
        axes.set_xticks(range(len(columns)), columns)
        axes.set_yticks(range(len(self.rows)), self.rows)
        axes.set_xlabel(self.column_label)
        axes.set_ylabel(self.row_label)
        axes.spines[["top", "right"]].set_visible(True)
        axes.tick_params(length=0)
        _give_title(axes, self.title)


def draw_panels(panels: Sequence[Panel], path: Path | str, *, columns: int = 1) -> None:
    """Write a PNG of panels, each 7 by 3.5 inches, in rows."""
    rows, columns = -(-len(panels) // columns), min(columns, len(panels))
    figure = agg_figure((_WIDTH * columns, _HEIGHT * rows), "a chart", layout="constrained")
    import matplotlib as mpl  # noqa: PLC0415 - slow to load; agg_figure says where it is missing

    style: Any = {
        "font.size": 12,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.edgecolor": WIRE,
        "text.color": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "hatch.linewidth": 0.5,
    }
    with mpl.rc_context(style):
        for number, panel in enumerate(panels, start=1):
            axes = figure.add_subplot(rows, columns, number)
            panel.draw_on(axes)
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=_DOTS_PER_INCH)
        except OSError as error:
            raise ArtifactError(f"cannot write {path}: {error}; choose another place") from error


def _name_groups(axes: Axes, names: Sequence[str]) -> None:
    small = 9 if len(names) > _MOST_GROUPS else None
    if len(names) <= _MOST_UPRIGHT:
        axes.set_xticks(range(len(names)), names, fontsize=small)
        return
    lines = [name.replace("\n", " ") for name in names]
    axes.set_xticks(range(len(names)), lines, fontsize=small, rotation=30, ha="right")


def _leave_room(axes: Axes) -> None:
    """Make values begin at 0, and leave room above the highest."""
    axes.set_ylim(0, 1.05 * axes.dataLim.ymax)


def _give_title(axes: Axes, title: str, *, legend_rows: int = 0) -> None:
    axes.set_title(title, fontsize=13, loc="left", pad=8 + 17 * legend_rows)


def _require_lengths(title: str, places: Sequence[object], series: Sequence[Series]) -> None:
    for each in series:
        if len(each.values) != len(places):
            raise OptionError(
                f"{title!r}: {each.name!r} has {len(each.values)} values for {len(places)} places; "
                "give one each, or None"
            )
