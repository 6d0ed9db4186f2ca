"""Layout of a schedule on a page: stages as bands from top to bottom, wrapped into columns."""

from __future__ import annotations

import math
from itertools import pairwise

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.report.geometry import Layout
from tvm_ios.report.page import ROW_GAP, Page, stage_height

__all__ = ["lay_out"]

_MAX_PANELS = 12
_WANTED_ASPECT = 1.35
"""Width of a page over its height, wanted."""


def lay_out(graph: OperatorGraph, schedule: InterOpSchedule) -> Layout:
    """Layout of a schedule on a page of about 4 by 3."""
    heights = [stage_height(stage) + ROW_GAP for stage in schedule.stages]
    pages = [_page(graph, schedule, cuts) for cuts in _distinct_cuts(heights)]
    return min(pages, key=lambda page: abs(math.log(page.width / page.height / _WANTED_ASPECT)))


def _page(graph: OperatorGraph, schedule: InterOpSchedule, cuts: list[int]) -> Layout:
    page = Page(graph, schedule)
    for first, last in pairwise(cuts):
        page.add_panel(first, last)
    return page.layout()


def _distinct_cuts(heights: list[float]) -> list[list[int]]:
    """Panels as ranges between cuts: the most even split into 1, 2, … panels."""
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
