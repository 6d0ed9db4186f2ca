"""Plan of a call with a time budget: estimated seconds of its steps, and which still fit.

Estimates come from what the call measured so far: how long its first model took to make and runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import least_rounds
from tvm_ios.profile.race import looks_s, race_s, round_s
from tvm_ios.report.contestants import GIVEN, Contestant
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.search.result import SearchResult
from tvm_ios.support.time_budget import Reserve, TimeBudget

__all__ = [
    "LISTS_S",
    "PROMISING",
    "file_s",
    "fitting",
    "least_race_s",
    "race_reserve_s",
    "set_aside_for_end",
    "unsearched",
    "ways_s",
]

LISTS_S = 1.0
"""Seconds for one list of a network of some hundred operators, with room to spare."""
PROMISING = (
    Contestant.SEQUENTIAL,
    Contestant.DUE_FIRST,
    Contestant.PARTS,
    Contestant.IOS_LIST,
    Contestant.IOS,
    *GIVEN,
    Contestant.GREEDY,
    Contestant.UNTUNED_IOS_LIST,
    Contestant.UNTUNED_IOS,
    Contestant.UNTUNED_GREEDY,
    Contestant.OWN_KERNELS,
)
"""Contestants by what they are worth in a race, sequential order first, for ratios are over it."""
_RACE_SHARE = 3
"""Part of the time left that the last race may keep the search from, 1/3: a race of what was found
comes before more search, and a search before more rounds."""
_BYTES_A_S = 100_000_000
"""Bytes of parameters that are linked and written in a second."""
_REPORT_S = 0.3
"""Seconds to write a report and to store it, about."""
CONTESTANTS = 4
"""Contestants that a last race usually has."""


def file_s(link_s: float, parameter_bytes: int) -> float:
    """Seconds to link, write and keep the file of a model whose kernels took ``link_s`` to link."""
    return _REPORT_S + link_s + parameter_bytes / _BYTES_A_S


def least_race_s(
    run_ns: float, options: CompareOptions, *, contestants: int, made_s: float = 0.0
) -> float:
    """Seconds of the shortest race that can prove anything, each contestant compiled before it."""
    rounds = least_rounds(options.confidence)
    return (
        contestants * made_s
        + looks_s(run_ns, options, contestants=contestants)
        + rounds * round_s(run_ns, options, contestants=contestants)
    )


def race_reserve_s(
    spare_s: float, run_ns: float, options: CompareOptions, *, contestants: int, made_s: float
) -> float:
    """Seconds to set aside for the last race: its usual time, or less where little is left.

    Never less than the shortest race of sequential order and one other contestant takes.
    """
    least_s = least_race_s(run_ns, options, contestants=2, made_s=made_s)
    usual_s = contestants * made_s + race_s(run_ns, options, contestants=contestants)
    return min(usual_s, max(least_s, spare_s / _RACE_SHARE))


def fitting(
    contestants: Iterable[Contestant],
    spare_s: float,
    run_ns: float,
    options: CompareOptions,
    *,
    made_s: float,
) -> tuple[Contestant, ...]:
    """The most promising contestants that have time for a race which proves something.

    Sequential order alone where there is no time for a rival.
    """
    ranked = sorted(contestants, key=PROMISING.index)
    for count in range(len(ranked), 1, -1):
        if least_race_s(run_ns, options, contestants=count, made_s=made_s) <= spare_s:
            return tuple(ranked[:count])
    return tuple(ranked[:1])


def ways_s(
    run_ns: float, options: CompareOptions, *, ways: int, traced_s: float, made_s: float
) -> float:
    """Seconds to trace networks, one for each way of operators, and to race as many choices."""
    return ways * made_s + traced_s + least_race_s(run_ns, options, contestants=ways)


def set_aside_for_end(
    budget: TimeBudget, sequential_ns: int, compare: CompareOptions, *, made_s: float
) -> None:
    """Set time aside for lists and the last race, whose contestants take ``made_s`` to compile."""
    if not budget.is_limited:
        return
    budget.set_aside(Reserve.RACE, 0.0)
    race_s = race_reserve_s(
        budget.spare_s, sequential_ns, compare, contestants=CONTESTANTS, made_s=made_s
    )
    budget.set_aside(Reserve.RACE, race_s)
    budget.set_aside(Reserve.LISTS, LISTS_S)


def unsearched(graph: OperatorGraph, sequential_ns: int) -> SearchResult:
    """Sequential order in place of what a search would have found."""
    order = replace(sequential_schedule(graph), scheduler="ios", latency_ns=sequential_ns)
    return SearchResult(
        schedule=order,
        latency_ns=sequential_ns,
        sequential_ns=sequential_ns,
        blocks=(),
        seconds=0.0,
    )
