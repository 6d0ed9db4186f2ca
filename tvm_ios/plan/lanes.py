"""Assignment of runs of launches to lanes, which on a GPU are streams. No TVM here.

Lanes are filled in the order of the schedule by list scheduling with communication (HEFT, Topcuoglu
et al., 2002): a run goes where it ends first, and reading what another lane wrote takes time. An
idle lane may still take a run of another one, but only after waiting a little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["CORES", "STREAMS", "HandOver", "assign_lanes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Time until a lane can go on with what another lane wrote."""

    signal_ns: int
    """Nanoseconds until a lane learns that another one is done."""
    fetch_ns_per_kb: int
    """Nanoseconds that a lane takes to read 1 KB that another lane wrote."""


CORES = HandOver(signal_ns=300, fetch_ns_per_kb=200)
"""Hand-over between cores: dirty data in another core's cache are read at about 5 GB/s."""
STREAMS = HandOver(signal_ns=200, fetch_ns_per_kb=0)
"""Hand-over between streams: they share one cache, and in a graph an edge between two of them is
like one within a stream. The rest keeps chains together where parting them gains nothing."""


def assign_lanes(
    steps: Sequence[tuple[int, int]],
    costs_ns: Sequence[int],
    reads: Sequence[Mapping[int, int]],
    *,
    lanes: int,
    hand_over: HandOver = CORES,
) -> tuple[int, ...]:
    """The lane of every run. O(lanes x (runs + reads)) and a sort.

    Parameters
    ----------
    steps
        Stage of each run, and its place among the runs of its group.
    costs_ns
        Nanoseconds of each run on one lane.
    reads
        For each run the bytes it reads from each run before it: of an earlier stage, or at an
        earlier place of its group.
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
                    begin_ns = max(begin_ns, done_ns[earlier] + hand_over.signal_ns)
                    fetch_ns += size * hand_over.fetch_ns_per_kb / 1000
            ends_ns.append(begin_ns + fetch_ns + costs_ns[run])
        home = min(range(lanes), key=lambda lane: (ends_ns[lane], lane))
        homes[run] = home
        done_ns[run] = free_ns[home] = ends_ns[home]
    return tuple(homes)
