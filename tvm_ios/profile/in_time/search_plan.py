"""Time that is set aside before a search, and the result of a search that there is no time for."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.profile.in_time.time_plan import LISTS_S, race_reserve_s
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.search.result import SearchResult
from tvm_ios.support.time_budget import Reserve, TimeBudget

__all__ = ["set_aside_for_end", "unsearched"]

CONTESTANTS = 4
"""Contestants that a last race usually has."""


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
