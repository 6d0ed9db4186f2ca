"""Which lane each run of launches belongs to: its stream. No TVM here.

Lanes are filled in the order of the schedule, as list scheduling with communication does (HEFT,
Topcuoglu et al., 2002): a run goes where it would be done first, and reading what another lane
wrote takes time. An idle lane may still take a run of another one, but only after waiting a little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["assign_lanes"]

HAND_OVER_NS = 300
"""One core learns that another is done, and reads the first line of what it wrote."""
FETCH_NS_PER_KB = 200
"""A kernel reads what lies dirty in another core's cache at about 5 GB/s."""


def assign_lanes(
    steps: Sequence[tuple[int, int]],
    costs_ns: Sequence[int],
    reads: Sequence[Mapping[int, int]],
    *,
    lanes: int,
) -> tuple[int, ...]:
    """The lane of every run. O(lanes x (runs + reads)) and a sort.

    Parameters
    ----------
    steps
        The stage of each run, and its place among the runs of its group.
    costs_ns
        What each run costs on one lane, in nanoseconds.
    reads
        For each run the bytes it reads from each run before it: of an earlier stage, or at an
        earlier place of its group.
    lanes
        How many lanes there are.
    """
    homes = [0] * len(steps)
    done_ns = [0.0] * len(steps)
    free_ns = [0.0] * lanes
    # Of one step the longest runs choose first, so that what is left over fills the gaps.
    for run in sorted(range(len(steps)), key=lambda run: (steps[run], -costs_ns[run], run)):
        ends_ns = []
        for lane in range(lanes):
            begin_ns, fetch_ns = free_ns[lane], 0.0
            for earlier, size in reads[run].items():
                if homes[earlier] == lane:
                    begin_ns = max(begin_ns, done_ns[earlier])
                else:
                    begin_ns = max(begin_ns, done_ns[earlier] + HAND_OVER_NS)
                    fetch_ns += size * FETCH_NS_PER_KB / 1000
            ends_ns.append(begin_ns + fetch_ns + costs_ns[run])
        home = min(range(lanes), key=lambda lane: (ends_ns[lane], lane))
        homes[run] = home
        done_ns[run] = free_ns[home] = ends_ns[home]
    return tuple(homes)
