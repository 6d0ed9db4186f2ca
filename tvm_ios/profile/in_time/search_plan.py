"""What comes before a search within a time budget: whether it pays, and what is set aside."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.compile.lower import hand_over_of
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.profile.in_time.time_plan import LISTS_S, race_reserve_s
from tvm_ios.profile.prices import StagePrices
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.search.ceiling import LITTLE, ceiling_of
from tvm_ios.search.result import SearchResult
from tvm_ios.support.time_budget import Reserve, TimeBudget

__all__ = ["nothing_to_gain", "set_aside_for_end", "unsearched"]

CONTESTANTS = 4
"""Contestants that a last race usually has."""


def nothing_to_gain(prices: StagePrices) -> str:
    """Verdict of the ceiling by measured prices, where next to nothing can be gained; else empty.

    It ignores merges, which gain next to nothing on CPUs.
    """
    runner = prices.kernels.runner
    ceiling = ceiling_of(
        prices.graph,
        prices.operators_ns(prices.graph, lanes=1),
        [runner.lanes],
        hand_over=hand_over_of(runner.built.prepared.target),
        splits=runner.idle_lanes_help,
    )
    (row,) = ceiling.rows
    pays = row.lanes > 1 and not ceiling.is_chain and row.at_most >= LITTLE
    return "" if pays else ceiling.verdict(row)


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
