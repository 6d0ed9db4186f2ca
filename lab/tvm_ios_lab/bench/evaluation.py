"""Measures one network every way we know, in one interleaved run: for the demo and benchmarks.

All contestants run kernels of the same TVM under the same settings, so a ratio says nothing about
code generation. Ours share one build (merged stages have kernels of their own); stock TVM runs what
it makes of the model by itself, without the element-wise operators that we move in front of
concatenations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_ios.compile.built_model import BuiltModel, build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.schedule import Strategy
from tvm_ios.cost.measured import MeasureCounters
from tvm_ios.driver.races.stock_contestants import (
    STOCK_ALL,
    STOCK_LANES,
    STOCK_ONE,
    race_with_stock,
)
from tvm_ios.measure.comparison import Comparison
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.profile.build_candidates import changes_for
from tvm_ios.profile.fastest_build import ChosenBuild, build_fastest
from tvm_ios.profile.find_schedules import ScheduledBuild, find_schedules
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.race import Choice, choose
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.profile.way_choice import settled_prices
from tvm_ios.report.table import comparison_table
from tvm_ios.report.tune_report import Contestant
from tvm_ios.runtime.cpu.stock_executor import ask_for_threads
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.result import SearchResult
from tvm_ios.support.progress import PhaseClock
from tvm_ios.support.time_budget import TimeBudget

__all__ = [
    "GREEDY",
    "IOS",
    "IOS_LIST",
    "SEQUENTIAL",
    "Evaluation",
    "evaluate",
    "search_all",
    "stock_build",
]

SEQUENTIAL = "sequential"
GREEDY = "greedy"
IOS = "IOS-both"
IOS_LIST = "IOS-both + list"
IOS_STRATEGIES: Mapping[str, frozenset[Strategy]] = {
    "IOS-merge": frozenset({Strategy.MERGE}),
    "IOS-concurrent": frozenset({Strategy.CONCURRENT}),
    IOS: frozenset(Strategy),
}
NAMES = {
    Contestant.SEQUENTIAL: SEQUENTIAL,
    Contestant.GREEDY: GREEDY,
    Contestant.IOS: IOS,
    Contestant.IOS_LIST: IOS_LIST,
}
"""Names here of tune's contestants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Results of one network that was measured every way."""

    built: BuiltModel
    """The network with our kernels."""
    models: Mapping[str, CompiledModel]
    """Everything that runs on our lanes, by contestant."""
    searches: Mapping[str, SearchResult]
    counters: MeasureCounters
    comparison: Comparison
    stage_prices_ns: tuple[int, ...]
    """Price of each stage of :data:`IOS`."""
    trace: tuple[TraceEvent, ...]
    """Trace of one run of :data:`IOS`; never the source of a latency."""
    phase_s: Mapping[str, float]
    notes: tuple[str, ...]

    @property
    def kept(self) -> str:
        """The contestant that ``tune`` would keep."""
        return NAMES[self._choice.kept]

    @property
    def best_stock(self) -> str:
        """The faster of stock TVM with one thread and with all."""
        return min((STOCK_ONE, STOCK_ALL), key=self.comparison.median_ns)

    @property
    def _choice(self) -> Choice:
        """Contestant that is kept, and why; a list on one lane has not raced."""
        raced = {who: name for who, name in NAMES.items() if name in self.comparison.names}
        return choose(self.comparison, raced)

    def as_text(self) -> str:
        """The comparison table, and how the schedule was found."""
        baselines = (self.best_stock, STOCK_LANES, SEQUENTIAL)
        ios, plain = self.models[IOS], self.models[SEQUENTIAL]
        search = self.searches[IOS]
        phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.phase_s.items())
        lines = [
            comparison_table(self.comparison, baselines=baselines).as_text(),
            "(ratios are medians over interleaved rounds, with their 95 % intervals)",
            f"tune keeps {self.kept}: {self._choice.reason}",
            self.built.extraction.coverage.as_text(),
            f"{IOS}: {len(ios.schedule.stages)} stages for {len(ios.graph)} operators; "
            f"{search.priced} of {search.distinct_stages} possible stages priced; memory "
            f"{ios.plan.arena_bytes / 1e6:.2f} MB (sequential {plain.plan.arena_bytes / 1e6:.2f})",
            f"time: {phases}; {self.counters.priced} workloads measured, "
            f"{self.counters.from_database} in the profile database",
            *(f"note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)


def search_all(
    prices: StagePrices, clock: PhaseClock, budget: TimeBudget | None = None
) -> tuple[ScheduledBuild, tuple[int, ...]]:
    """Sequential and greedy order, an IOS schedule for each set of strategies, and a list.

    Parameters
    ----------
    prices
        Prices of the network's stages.
    clock
        Clock that is told how far the searches are.
    budget
        Budget of the whole call; where omitted, there is no limit.

    Returns
    -------
    found, stage_prices_ns
        The prices are those of the stages of :data:`IOS`.
    """
    limits = {
        contestant: SearchOptions(strategies=strategies)
        for contestant, strategies in IOS_STRATEGIES.items()
    }
    lists = {IOS_LIST: IOS}
    found = find_schedules(prices, limits, clock, budget, lists=lists)
    return found, tuple(prices.price(prices.graph, found.schedules[IOS].stages))


def stock_build(
    chosen: ChosenBuild,
    mod: tvm.IRModule,
    params: Mapping[str, Any],
    target: Any,
    clock: PhaseClock,
    *,
    name: str,
) -> BuiltModel:
    """The network as stock TVM builds it: the chosen build, if that is the same."""
    plain = not chosen.candidate.changes and not chosen.built.prepared.sunk
    if plain and chosen.built.exact:
        return chosen.built
    with clock.phase("build for stock TVM"):
        return build_model(mod, params, target, name=name, sink=False)


def evaluate(
    mod: tvm.IRModule,
    params: Mapping[str, Any],
    call: MeasuringCall,
    *,
    target: Any = None,
    name: str = "main",
) -> Evaluation:
    """Build a network, search its schedules, and time all contestants against each other.

    Arguments that are not explained here are those of :func:`tvm_ios.tune`.

    Parameters
    ----------
    call
        Its lanes run everything but the single-threaded baseline. Its budget is as that of
        ``tune``, but for the last race, which has all its rounds.
    """
    lanes, clock = call.lanes, call.clock
    chosen = build_fastest(
        mod, params, target, call, changes=changes_for(call.device.traits), name=name
    )
    built = chosen.built
    plain = stock_build(chosen, mod, params, target, clock, name=name)
    with (
        call.device.open() as session,
        StageKernels(built, lanes=lanes, session=session) as runner,
        clock.phase("search"),
    ):
        prices = settled_prices(MeasuredKernels(runner, database=call.database))
        searched, stage_prices_ns = search_all(prices, clock, call.budget)
    with clock.phase("lower"):
        models = {
            contestant: lower_schedule(built, schedule, lanes=lanes)
            for contestant, schedule in searched.schedules.items()
        }
    with clock.phase("compare"):
        comparison = race_with_stock(
            plain.kernels, models, lanes=lanes, options=call.compare, on_lanes=True
        )
        with models[IOS].executor() as executor:
            trace = tuple(executor.trace())
    return Evaluation(
        built=built,
        models=models,
        searches=searched.searches,
        counters=prices.kernels.counters,
        comparison=comparison,
        stage_prices_ns=stage_prices_ns,
        trace=trace,
        phase_s=clock.phase_s,
        notes=(
            *built.prepared.notes,
            *chosen.notes,
            *_thread_notes(lanes),
            *searched.notes,
            *comparison.notes,
            *call.budget.notes,
        ),
    )


def _thread_notes(lanes: int) -> tuple[str, ...]:
    """A word where stock TVM cannot use all lanes: its pool is made once for the process."""
    ask_for_threads(lanes)
    threads = int(tvm.get_global_func("runtime.NumThreads")())
    if threads >= lanes:
        return ()
    return (
        f"TVM's thread pool has {threads} threads for {lanes} lanes, so {STOCK_ALL!r} is not all; "
        f"set TVM_NUM_THREADS={lanes} before Python starts",
    )
