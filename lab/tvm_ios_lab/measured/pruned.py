"""Pruned searches with prices that are measured on this CPU."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.profile.way_choice import settled_prices
from tvm_ios.search.ios import search_ios
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.result import SearchResult
from tvm_ios_lab.cells.pruning import LIMITS, PrunedNetwork, PrunedSearch, limits_text
from tvm_ios_lab.harness.cpu_run import CpuRun
from tvm_ios_lab.harness.protocol import Bench
from tvm_ios_lab.measured.network import priced_network

__all__ = ["pruned"]


def pruned(name: str, run: CpuRun, bench: Bench) -> PrunedNetwork:
    """Search within all limits, lazily and exhaustively; race what the lazy ones find."""
    searches, schedules = [], {}
    with priced_network(name, run, bench) as network:
        runner = network.kernels.runner
        _searched(runner, *LIMITS[-1], lazy=False)  # else the first ones would compile for all
        for r, s in LIMITS:
            for lazy in (True, False):
                prices, found = _searched(runner, r, s, lazy=lazy)
                if lazy:
                    schedules[limits_text((r, s))] = prices.annotate(found.schedule)
                searches.append(
                    PrunedSearch(
                        max_group_size=r,
                        max_num_groups=s,
                        lazy=lazy,
                        ms=0.0,
                        seconds=found.seconds,
                        priced=found.priced,
                        possible=found.distinct_stages,
                        states=found.states,
                        transitions=found.transitions,
                    )
                )
        race = network.race(schedules)
    return PrunedNetwork(
        searches=tuple(
            replace(
                search,
                ms=race.median_ns(limits_text((search.max_group_size, search.max_num_groups)))
                / 1e6,
            )
            for search in searches
        ),
        race=race,
    )


def _searched(
    runner: StageKernels, r: int, s: int, *, lazy: bool
) -> tuple[StagePrices, SearchResult]:
    """A search that knows no price, and the prices it has found."""
    prices = settled_prices(MeasuredKernels(runner))
    options = SearchOptions(max_group_size=r, max_num_groups=s, predict_stages=False)
    options = options.completed(measured=True)
    return prices, search_ios(prices.graph, prices, options, lazy=lazy)
