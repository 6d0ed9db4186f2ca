"""Picture of traced runs below each other on one axis of time: what ran on which lane when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.errors import ArtifactError
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.report.agg_figure import agg_figure
from tvm_ios.report.palette import FAMILIES, INK, family_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DrawnRun", "draw_runs"]

_ROW, _AROUND = 0.32, 0.62
"""Inches of a lane, and of what stands above and below the lanes of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRun:
    """A traced run to draw."""

    title: str
    lanes: int
    events: Sequence[TraceEvent]


def draw_runs(runs: Sequence[DrawnRun], path: Path, *, title: str) -> None:
    """Write a picture of runs; a HostError names what to install where matplotlib is missing.

    The ending of the path chooses the format (png, pdf, svg).
    """
    height = 0.8 + sum(_AROUND + _ROW * run.lanes for run in runs)
    figure = agg_figure((11, height), "runs", layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", size=11, weight="bold", color=INK)
    heights = [run.lanes for run in runs]
    all_axes = figure.subplots(len(runs), sharex=True, squeeze=False, height_ratios=heights)
    for axes, run in zip(all_axes[:, 0], runs, strict=True):
        _draw(axes, run)
    told = "milliseconds; an operator that other lanes help with is drawn on the lane that began it"
    all_axes[-1, 0].set_xlabel(told, size=8)
    _add_legend(figure, runs)
    try:
        figure.savefig(path, dpi=130)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error}; choose another --output") from error


def _draw(axes: Axes, run: DrawnRun) -> None:
    for event in run.events:
        axes.broken_barh(
            [(event.start_ns / 1e6, (event.end_ns - event.start_ns) / 1e6)],
            (event.lane - 0.4, 0.8),
            facecolor=family_of(event.operator).fill,
            edgecolor=INK,
            linewidth=0.3,
        )
    axes.set_title(run.title, loc="left", size=9, color=INK)
    axes.set_yticks(range(run.lanes), [f"lane {lane}" for lane in range(run.lanes)], size=8)
    axes.set_ylim(run.lanes - 0.5, -0.5)
    axes.tick_params(axis="x", labelsize=8)
    axes.margins(x=0.005)
    axes.spines[["top", "right"]].set_visible(False)


def _add_legend(figure: object, runs: Sequence[DrawnRun]) -> None:
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.patches import Patch  # noqa: PLC0415

    assert isinstance(figure, Figure)
    used = {family_of(event.operator).label for run in runs for event in run.events}
    kinds = [
        Patch(facecolor=family.fill, edgecolor=INK, linewidth=0.3, label=family.label)
        for family in FAMILIES
        if family.label in used
    ]
    figure.legend(handles=kinds, loc="outside lower right", ncols=6, frameon=False, fontsize=8)
