"""Measures one network every way we know, in one interleaved run: for the demo and benchmarks.

All contestants run the same TVM kernels, built once (merged stages have kernels of their own), so
a ratio says what scheduling and executing bring, and nothing about code generation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.compiled import BuiltModel, CompiledModel, build_model, lower_schedule
from tvm_ios.core.schedule import Strategy
from tvm_ios.cost.compare import CompareOptions, compare
from tvm_ios.cost.comparison import Comparison, Verdict
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.measured import MeasureCounters
from tvm_ios.front_door import BOUND_MARGIN_PERCENT, PhaseClock, search_schedule
from tvm_ios.pricing import KernelPrices, RelayStageRunner, open_database
from tvm_ios.progress import ProgressListener
from tvm_ios.runtime.sample_inputs import sample_inputs
from tvm_ios.runtime.stock_executor import StockExecutor
from tvm_ios.runtime.trace import TraceEvent
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.result import SearchResult

__all__ = ["IOS", "SEQUENTIAL", "STOCK_ALL", "STOCK_LANES", "STOCK_ONE", "Evaluation", "evaluate"]

STOCK_ONE = "TVM, 1 thread"
STOCK_ALL = "TVM, all threads"
STOCK_LANES = "TVM on our launch path"
SEQUENTIAL = "sequential"
GREEDY = "greedy"
IOS = "IOS-both"
IOS_STRATEGIES: Mapping[str, frozenset[Strategy]] = {
    "IOS-merge": frozenset({Strategy.MERGE}),
    "IOS-concurrent": frozenset({Strategy.CONCURRENT}),
    IOS: frozenset(Strategy),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """One network, measured."""

    built: BuiltModel
    models: Mapping[str, CompiledModel]
    """Everything that runs on our lanes, by contestant."""
    searches: Mapping[str, SearchResult]
    counters: MeasureCounters
    comparison: Comparison
    stage_prices_ns: tuple[int, ...]
    """What each stage of :data:`IOS` was priced at."""
    trace: tuple[TraceEvent, ...]
    """One run of :data:`IOS`; never the source of a latency."""
    phase_s: Mapping[str, float]
    notes: tuple[str, ...]

    @property
    def kept(self) -> str:
        """What ``tune`` keeps: IOS if it beats sequential order beyond the noise."""
        speedup = self.comparison.speedup(IOS, over=SEQUENTIAL)
        return IOS if speedup.verdict is Verdict.WINS else SEQUENTIAL

    @property
    def best_stock(self) -> str:
        """The faster of stock TVM with one thread and with all."""
        return min((STOCK_ONE, STOCK_ALL), key=self.comparison.median_ns)


def evaluate(
    mod: tvm.IRModule,
    params: Mapping[str, Any],
    target: Any = None,
    *,
    name: str = "main",
    lanes: int,
    database: ProfileDatabase | str | Path | None = None,
    options: CompareOptions | None = None,
    time_budget_s: float | None = None,
    progress: ProgressListener | None = None,
) -> Evaluation:
    """Build a network, search its schedules, and time all contestants against each other.

    Parameters
    ----------
    mod, params, target
        As for :func:`tvm_ios.tune`.
    name
        Name of the graph, for pictures and reports.
    lanes
        Threads of everything but the single-threaded baseline.
    database
        Where prices are kept.
    options
        How contestants are timed.
    time_budget_s
        Seconds for each of the searches.
    progress
        Called now and then.
    """
    clock = PhaseClock(progress)
    with clock.phase("build"):
        built = build_model(mod, params, target, name=name)
    searches: dict[str, SearchResult] = {}
    with RelayStageRunner(built, lanes=lanes) as runner:
        prices = KernelPrices(runner, database=open_database(database))
        with clock.phase("search"):
            prices.price_operators()
            schedules = {
                SEQUENTIAL: prices.annotate(sequential_schedule(built.graph)),
                GREEDY: prices.annotate(greedy_schedule(built.graph)),
            }
            for contestant, strategies in IOS_STRATEGIES.items():
                limits = SearchOptions(
                    strategies=strategies, bound_margin_percent=BOUND_MARGIN_PERCENT
                )
                searches[contestant] = search_schedule(
                    prices, limits, clock, time_budget_s=time_budget_s
                )
                schedules[contestant] = searches[contestant].schedule
            stage_prices_ns = tuple(prices.price(built.graph, schedules[IOS].stages))
    with clock.phase("lower"):
        models = {
            name: lower_schedule(built, schedule, lanes=lanes)
            for name, schedule in schedules.items()
        }
    with clock.phase("compare"):
        comparison, trace = _compare(built, models, lanes, options)
    return Evaluation(
        built=built,
        models=models,
        searches=searches,
        counters=prices.counters,
        comparison=comparison,
        stage_prices_ns=stage_prices_ns,
        trace=trace,
        phase_s=clock.phase_s,
        notes=(
            *built.prepared.notes,
            *dict.fromkeys(note for found in searches.values() for note in found.notes),
            *prices.notes,
            *comparison.notes,
        ),
    )


def _compare(
    built: BuiltModel,
    models: Mapping[str, CompiledModel],
    lanes: int,
    options: CompareOptions | None,
) -> tuple[Comparison, tuple[TraceEvent, ...]]:
    staged = built.kernels.staged
    stock = StockExecutor(staged.graph_json, built.kernels.library, staged.params, lanes=lanes)
    contestants: dict[str, Callable[[int], int]] = {
        STOCK_ONE: partial(stock.time_ns, threads=1),
        STOCK_ALL: partial(stock.time_ns, threads=lanes),
        STOCK_LANES: stock.time_on_lanes_ns,
    }
    inputs = sample_inputs(models[SEQUENTIAL].plan, staged.params)
    with ExitStack() as stack:
        stack.callback(stock.close)
        executors = {name: stack.enter_context(model.executor()) for name, model in models.items()}
        for name, value in inputs.items():
            stock.set_input(name, value)
            for executor in executors.values():
                executor.set_input(name, value)
        contestants |= {name: executor.time_ns for name, executor in executors.items()}
        comparison = compare(
            contestants, options=options, ping_pong_ns=executors[SEQUENTIAL].ping_pong_ns
        )
        trace = tuple(executors[IOS].trace())
    return comparison, trace
