"""What ``tune``, the benchmarks and the pass share: search with measured prices, then a race.

The race times whole networks. Prices of single stages leave out what one stage does to the caches
of the next, so no schedule is believed before it has been timed against sequential order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from tvm_ios.compiled import CompiledModel, lower_schedule
from tvm_ios.core.endings import EndingRule
from tvm_ios.core.schedule import InterOpSchedule, Strategy
from tvm_ios.cost.compare import CompareOptions, compare
from tvm_ios.cost.comparison import Comparison, Verdict
from tvm_ios.cost.machine_mode import ModeOptions
from tvm_ios.cost.sampling import TimedRuns
from tvm_ios.devices.protocol import MeasuringSession, TimedExecutor
from tvm_ios.errors import OptionError
from tvm_ios.pricing import KernelPrices
from tvm_ios.progress import PhaseClock
from tvm_ios.runtime.sample_inputs import sample_inputs
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.result import SearchProgress, SearchResult
from tvm_ios.tune_report import Contestant

__all__ = [
    "baseline_schedules",
    "choose",
    "measured_search_options",
    "race",
    "require_time_budget",
    "resumable",
    "search_schedule",
    "settle_splits",
]

BOUND_MARGIN_PERCENT = 3
"""Measured prices scatter by about this much, so the search trusts its bounds that much less."""
SPLIT_RACE = CompareOptions(rounds=9, min_repeat_ms=2.0, mode=ModeOptions(patience_s=5.0))
CLEARLY_FASTER = 1.02
MAX_CHAIN_SIZE = 3
"""Operators of one schedule unit: a depthwise convolution and what stands around it."""


def measured_search_options(
    *,
    strategies: Iterable[Strategy | str] | Strategy | str = tuple(Strategy),
    max_group_size: int = 3,
    max_num_groups: int = 8,
    endings: EndingRule | str = EndingRule.COMPLETE,
    pad_merged_kernels: bool = True,
) -> SearchOptions:
    """Search options fit for measured prices.

    Parameters
    ----------
    strategies
        Kinds of stages to try, by member or name; one or several.
    max_group_size, max_num_groups
        The paper's r and s; 0 means no limit.
    endings
        Which concurrent stages exist, by member or name.
    pad_merged_kernels
        Whether convolutions of different kernel sizes may merge.

    Raises
    ------
    OptionError
        If a value is unknown or out of range.
    """
    return SearchOptions(
        strategies=_strategies(strategies),
        max_group_size=max_group_size,
        max_num_groups=max_num_groups,
        endings=_ending_rule(endings),
        pad_merged_kernels=pad_merged_kernels,
        bound_margin_percent=BOUND_MARGIN_PERCENT,
        max_chain_size=MAX_CHAIN_SIZE,
    )


def baseline_schedules(prices: KernelPrices) -> dict[Contestant, InterOpSchedule]:
    """Sequential and greedy order of a model whose operators are priced."""
    return {
        Contestant.SEQUENTIAL: prices.annotate(sequential_schedule(prices.graph)),
        Contestant.GREEDY: prices.annotate(greedy_schedule(prices.graph)),
    }


def settle_splits(prices: KernelPrices) -> None:
    """Price the operators, then let whole networks decide which of them idle lanes help with.

    Sequential order is timed three times: with the operators that gain by themselves split, with
    all of them, and with none. The first is kept unless another is clearly faster.
    """
    prices.price_operators()
    built, lanes = prices.runner.built, prices.runner.lanes
    if lanes == 1 or not prices.runner.idle_lanes_help:
        return
    choices = {
        "by price": prices.unsplit,
        "all split": (),
        "none split": tuple(range(len(prices.graph))),
    }
    in_order = prices.annotate(sequential_schedule(prices.graph))
    models = {
        name: lower_schedule(built, replace(in_order, unsplit=unsplit), lanes=lanes)
        for name, unsplit in choices.items()
    }
    comparison = race(models, options=SPLIT_RACE, session=prices.runner.session)
    first, *others = choices
    best = min(others, key=comparison.median_ns)
    if comparison.speedup(best, over=first).low > CLEARLY_FASTER:
        prices.keep_whole(choices[best])


@contextmanager
def resumable(prices: KernelPrices) -> Iterator[None]:
    """Save prices on the way out; after Ctrl-C a note on the exception says how to go on."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        prices.save()
        counters = prices.counters
        interrupt.add_note(
            f"{counters.priced - counters.unsaved} measured prices are kept in "
            f"{prices.database_path}; do the same again to go on from there"
        )
        raise
    prices.save()


def search_schedule(
    prices: KernelPrices,
    options: SearchOptions,
    clock: PhaseClock | None = None,
    *,
    time_budget: float | None = None,
) -> SearchResult:
    """Search with measured prices, telling the clock how far it is.

    Parameters
    ----------
    prices
        Prices of the model's stages.
    options
        Limits and rules.
    clock
        Told after every batch of prices.
    time_budget
        Seconds after which the best schedule found so far is taken.
    """
    deadline = math.inf if time_budget is None else time.monotonic() + time_budget

    def report(step: SearchProgress) -> None:
        if clock is not None:
            clock.say(
                f"block {step.block + 1} of {step.num_blocks}, at least "
                f"{step.bound_ns / 1e6:.3f} ms, {prices.counters.priced} measured, "
                f"{prices.counters.from_database} known",
                done=step.priced,
            )

    return search_ios(
        prices.graph,
        prices,
        options,
        progress=report,
        should_stop=lambda: time.monotonic() > deadline,
    )


def race(
    models: Mapping[str, CompiledModel],
    others: Mapping[str, TimedRuns] | None = None,
    *,
    options: CompareOptions | None = None,
    session: MeasuringSession,
) -> Comparison:
    """Time compiled models, and others, against each other on the same inputs, interleaved.

    Parameters
    ----------
    models
        By name, all of the same network.
    others
        More contestants by name, their inputs set; timed before the models in a round.
    options
        How they are timed.
    session
        On the device the models run on.
    """
    with ExitStack() as stack:
        executors: dict[str, TimedExecutor] = {}
        for name, model in models.items():
            executors[name] = session.executor(model)
            stack.callback(executors[name].close)
        first = next(iter(models.values()))
        inputs = sample_inputs(first.plan, first.kernels.staged.params)
        for executor in executors.values():
            for name, value in inputs.items():
                executor.set_input(name, value)
        timed = {name: executor.time_ns for name, executor in executors.items()}
        ping_pong_ns = next(iter(executors.values())).ping_pong_ns
        return compare({**(others or {}), **timed}, options=options, ping_pong_ns=ping_pong_ns)


def choose(comparison: Comparison, names: Mapping[Contestant, str]) -> tuple[Contestant, str]:
    """Who is kept, and why: the fastest of those that beat sequential order beyond the noise.

    Parameters
    ----------
    comparison
        The race.
    names
        What the contestants are called in it; sequential order must be there.

    Returns
    -------
    kept, reason
        The reason is a sentence for people.
    """
    base = names[Contestant.SEQUENTIAL]
    speedups = {
        contestant: comparison.speedup(name, over=base)
        for contestant, name in names.items()
        if contestant is not Contestant.SEQUENTIAL
    }
    winners = [who for who, speedup in speedups.items() if speedup.verdict is Verdict.WINS]
    if not winners:
        tried = ", ".join(
            f"{who.value} {speedup.ratio:.3f} ({speedup.low:.3f} to {speedup.high:.3f})"
            for who, speedup in speedups.items()
        )
        return Contestant.SEQUENTIAL, (
            f"nothing is faster than sequential order beyond the noise (times as fast: {tried})"
            if tried
            else "the search found nothing but sequential order"
        )
    kept = min(winners, key=lambda who: comparison.median_ns(names[who]))
    speedup = speedups[kept]
    return kept, (
        f"{speedup.ratio:.3f} times as fast as sequential order "
        f"({speedup.low:.3f} to {speedup.high:.3f})"
    )


def require_time_budget(time_budget: float | None) -> None:
    """Refuse a time budget that is no positive number of seconds.

    Raises
    ------
    OptionError
        If it is not.
    """
    if time_budget is None:
        return
    number = isinstance(time_budget, int | float) and not isinstance(time_budget, bool)
    if not number or not time_budget > 0:
        raise OptionError(
            f"time_budget is {time_budget!r}; give seconds above 0, or None for no limit"
        )


def _strategies(strategies: Iterable[Strategy | str] | Strategy | str) -> frozenset[Strategy]:
    names = ", ".join(repr(strategy.value) for strategy in Strategy)
    try:
        given = [strategies] if isinstance(strategies, str | Strategy) else list(strategies)
        if not given:
            raise OptionError(f"strategies is empty; give at least one of {names}")
        return frozenset(Strategy(strategy) for strategy in given)
    except (TypeError, ValueError) as error:
        raise OptionError(f"strategies is {strategies!r}; choose from {names}") from error


def _ending_rule(endings: EndingRule | str) -> EndingRule:
    try:
        return EndingRule(endings)
    except ValueError as error:
        names = " or ".join(repr(rule.value) for rule in EndingRule)
        raise OptionError(f"endings is {endings!r}; give {names}") from error
