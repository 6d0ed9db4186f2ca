"""Placement of rows of items, with straight links between neighbouring rows.

The layered drawing of Sugiyama, Tagawa and Toda (1981): every row is ordered by the mean position
of its neighbours in the row before, sweeping down and up, and the positions of a row are the least
squares fit that keeps order and distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

__all__ = ["place_rows"]

_SWEEPS = 12
_SETTLING = 40
"""Number of passes that keep the order and straighten lines."""
_PULL = 0.95
"""Factor below 1 that keeps lines close to the middle of the page, which is at 0."""


def place_rows(
    widths: Sequence[Sequence[float]], links: Sequence[Sequence[tuple[int, int]]], *, gap: float
) -> list[list[float]]:
    """Centre of every item; the leftmost edge is at 0.

    Costs O(sweeps * (items log items + links)).

    Parameters
    ----------
    widths
        Width of each item, row by row, in the order they are numbered.
    links
        ``links[i]`` holds pairs of an item of row ``i`` and an item of row ``i + 1``.
    gap
        Smallest distance between neighbours.
    """
    above, below = _neighbours(widths, links)
    centres = [_packed(row, gap) for row in widths]
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        rows = range(1, len(widths)) if down else range(len(widths) - 2, -1, -1)
        for row in rows:
            other = row - 1 if down else row + 1
            reads = above[row] if down else below[row]
            wanted = [
                _mean([centres[other][i] for i in reads[item]], centres[row][item])
                for item in range(len(widths[row]))
            ]
            centres[row] = _fit(wanted, wanted, widths[row], gap)
    for _ in range(_SETTLING):
        for row in range(len(widths)):
            wanted = []
            for item, centre in enumerate(centres[row]):
                near = [centres[row - 1][i] for i in above[row][item]]
                near += [centres[row + 1][i] for i in below[row][item]]
                wanted.append(_mean(near, centre))
            centres[row] = _fit(wanted, centres[row], widths[row], gap)
    return _shifted(centres, widths)


def _neighbours(
    widths: Sequence[Sequence[float]], links: Sequence[Sequence[tuple[int, int]]]
) -> tuple[list[list[list[int]]], list[list[list[int]]]]:
    above: list[list[list[int]]] = [[[] for _ in row] for row in widths]
    below: list[list[list[int]]] = [[[] for _ in row] for row in widths]
    for row, pairs in enumerate(links):
        for upper, lower in pairs:
            below[row][upper].append(lower)
            above[row + 1][lower].append(upper)
    return above, below


def _packed(widths: Sequence[float], gap: float) -> list[float]:
    ends = list(accumulate(width + gap for width in widths))
    middle = (ends[-1] - gap) / 2 if ends else 0.0
    return [end - gap - width / 2 - middle for end, width in zip(ends, widths, strict=True)]


def _fit(
    wanted: Sequence[float], key: Sequence[float], widths: Sequence[float], gap: float
) -> list[float]:
    """Nearest positions to ``wanted``, in the order of ``key``, without overlap.

    Pool-adjacent-violators on the positions less the room of the items before. A narrow item yields
    to a wide one, so columns of boxes stay in line and long lines bend around them. Then the row
    moves to the middle of the page; otherwise long schedules drift to one side.
    """
    order = sorted(range(len(wanted)), key=lambda item: key[item])
    offsets = [0.0]
    for left, right in pairwise(order):
        offsets.append(offsets[-1] + (widths[left] + widths[right]) / 2 + gap)
    pools: list[tuple[float, float, int]] = []
    for item, offset in zip(order, offsets, strict=False):
        mean, weight, count = wanted[item] - offset, widths[item], 1
        while pools and pools[-1][0] > mean:
            other, load, size = pools.pop()
            mean = (mean * weight + other * load) / (weight + load)
            weight, count = weight + load, count + size
        pools.append((mean, weight, count))
    fitted = [mean for mean, _, count in pools for _ in range(count)]
    centres = [0.0] * len(wanted)
    for item, offset, position in zip(order, offsets, fitted, strict=False):
        centres[item] = position + offset
    moment = sum(centre * width for centre, width in zip(centres, widths, strict=True))
    middle = moment / sum(widths) if centres else 0.0
    return [centre - middle for centre in centres]


def _shifted(centres: list[list[float]], widths: Sequence[Sequence[float]]) -> list[list[float]]:
    left = min(
        (
            centre - width / 2
            for row, row_widths in zip(centres, widths, strict=True)
            for centre, width in zip(row, row_widths, strict=True)
        ),
        default=0.0,
    )
    return [[centre - left for centre in row] for row in centres]


def _mean(values: Sequence[float], default: float) -> float:
    return _PULL * sum(values) / len(values) if values else default
