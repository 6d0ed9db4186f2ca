"""Which lane each group belongs to: its stream. No TVM here.

Lanes are filled stage by stage, as list scheduling with communication does (HEFT, Topcuoglu et al.,
2002): a group goes where it would be done first, and data that another lane wrote costs time to
fetch. An idle lane may still take a group of another one, but only after waiting a little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["assign_lanes"]

HAND_OVER_NS = 300
"""One core learns that another is done, and reads the first line of what it wrote."""
FETCH_NS_PER_KB = 200
"""A core reads what lies dirty in another core's cache at about 5 GB/s."""


def assign_lanes(
    stages: Sequence[int],
    costs_ns: Sequence[int],
    reads: Sequence[Mapping[int, int]],
    *,
    lanes: int,
) -> tuple[int, ...]:
    """The lane of every group. O(lanes x (groups + reads)) and a sort.

    Parameters
    ----------
    stages
        The stage of each group, ascending.
    costs_ns
        What each group costs on one lane, in nanoseconds.
    reads
        For each group the bytes it reads from each earlier group.
    lanes
        How many lanes there are.
    """
    homes = [0] * len(stages)
    done_ns = [0.0] * len(stages)
    free_ns = [0.0] * lanes
    # In a stage the longest groups choose first, so that what is left over fills the gaps.
    order = sorted(range(len(stages)), key=lambda group: (stages[group], -costs_ns[group], group))
    for group in order:
        begin_ns = [
            max([free_ns[lane], *_arrivals(reads[group], homes, done_ns, lane)])
            for lane in range(lanes)
        ]
        home = min(range(lanes), key=lambda lane: (begin_ns[lane], lane))
        homes[group] = home
        done_ns[group] = free_ns[home] = begin_ns[home] + costs_ns[group]
    return tuple(homes)


def _arrivals(
    read: Mapping[int, int], homes: Sequence[int], done_ns: Sequence[float], lane: int
) -> list[float]:
    """When what a group reads would be on a lane."""
    return [
        done_ns[earlier]
        + (0.0 if homes[earlier] == lane else HAND_OVER_NS + size * FETCH_NS_PER_KB / 1000)
        for earlier, size in read.items()
    ]
