"""Choice of each operator's maker and lanes: by whole networks, once prices are known.

An operator priced by itself finds its data and weights in caches, and one busy second decides for
all of its workload. In the network each operator meets its real caches, and with runs far apart and
enough rounds, one of them is undisturbed. So networks in sequential order are traced, then raced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.cost.known_choices import BuildChoice, KnownChoices
from tvm_ios.cost.measured import MeasureCounters
from tvm_ios.devices.protocol import TimedExecutor
from tvm_ios.measure.compare import LONG_RUN_NS
from tvm_ios.measure.comparison import Comparison
from tvm_ios.profile.in_time.time_plan import ways_s
from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
from tvm_ios.profile.operator_prices import TVM, OperatorChoice, OperatorPrices
from tvm_ios.profile.predicted_prices import close_calls
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.race import VARIANT_RACE, compiled_for, executors_of, variant_race
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.search.baselines import sequential_schedule

__all__ = [
    "clearly_fastest",
    "distinct_ways",
    "fastest_of_traced",
    "keep_way",
    "known_way",
    "least_traced_ns",
    "predicted_prices",
    "settled_choice",
    "settled_prices",
    "ways_in_network",
    "ways_to_trace",
    "with_choice",
]

CLEARLY_FASTER = 1.02
LONG_OPERATOR_NS = 10_000_000
"""Average nanoseconds of an operator from which on prices decide alone: such operators meet the
same caches anywhere, and whole networks of them take seconds a run."""
LEAST_ROUNDS = 5
MOST_ROUNDS = 12
LONGEST_NS = 3_000_000_000
"""Nanoseconds after which no more rounds begin, once there are enough."""
WARM_NS = 10_000_000
"""Nanoseconds that a network runs before the run of a round that counts, at least once; networks
with long runs go without."""
MOST_RUNS = 20
_MADE_S = 0.15
"""Seconds to lower and load a network whose kernels are linked, about."""

_LOG = logging.getLogger(__name__)


def settled_prices(
    kernels: MeasuredKernels,
    *,
    predict: bool = False,
    on_batch: Callable[[MeasureCounters], None] | None = None,
) -> StagePrices:
    """Price the operators, and settle who computes each, and on which lanes.

    With ``predict`` prices of operators are predicted, except on GPUs, and their makers chosen by
    them. ``on_batch`` is called after each measured batch. After Ctrl-C all prices so far are kept,
    and a note on the exception says how to go on.
    """
    with kernels.resumable():
        if predict and kernels.runner.idle_lanes_help:
            prices = predicted_prices(kernels, on_batch=on_batch)
            choice = prices.choice()
        else:
            prices = measure_operators(kernels, on_batch=on_batch)
            choice = settled_choice(kernels, prices)
    told = (f"{maker} {len(choice.made_by(maker))}" for maker in prices.by_maker)
    _LOG.info("operators by maker: %s; %d stay on one lane", ", ".join(told), len(choice.unsplit))
    return StagePrices(kernels, choice)


def predicted_prices(
    kernels: MeasuredKernels, *, on_batch: Callable[[MeasureCounters], None] | None = None
) -> OperatorPrices:
    """Predicted prices, with measured ones where two makers are closer than their errors."""
    predicted = kernels.predicted()
    close = close_calls(predicted)
    if not close:
        return predicted
    measured = measure_operators(kernels, operators=close, on_batch=on_batch)
    return predicted.refined(measured.by_maker)


def settled_choice(kernels: MeasuredKernels, prices: OperatorPrices) -> OperatorChoice:
    """Choice by prices; where operators are short, whole networks decide.

    Each operator's times in the network choose its kernel or call, and whether idle lanes help.
    Then sequential order is timed in that way, in the way of the prices, with all operators split,
    and with no short ones split. The first is kept unless another one is clearly faster. A choice
    on a quiet machine is stored, and with it the keys of all prices that follow.

    Where others disturbed prices, help is predicted where less was measured: others take from it
    and not from one lane. In the slow mode of a virtual machine that choice is taken as it is, as
    nothing in the network tells of the usual mode.
    """
    runner, by_price = kernels.runner, prices.choice()
    if runner.lanes == 1 or not runner.idle_lanes_help:
        return by_price
    is_slow = kernels.in_slow_mode
    if is_slow or kernels.counters.flagged:
        usual = kernels.predictor.with_usual_help(prices)
        by_price = replace(usual.choice(), prices=prices)
    if sum(by_price.alone_ns) >= LONG_OPERATOR_NS * len(prices.graph):
        return by_price
    question = f"ways of operators in {kernels.identity}"
    choice = known_way(kernels.choices, question, prices)
    if choice is not None:
        return choice
    if is_slow:
        keep_way(kernels.choices, question, "by price", by_price, certain=False)
        return by_price
    limited = kernels.budget.is_limited
    if limited and not kernels.budget.allows(_settling_s(prices, runner.lanes)):
        kernels.budget.cut("makers of operators are those of prices alone, not of the network")
        return by_price
    ways = distinct_ways(by_price, ways_in_network(runner, prices))
    kept, certain = next(iter(ways)), True
    if len(ways) > 1:
        models = {name: with_choice(runner, way) for name, way in ways.items()}
        comparison = variant_race(models, kernels.budget, runner.session)
        if comparison is None:
            return ways[kept]
        kept, certain = clearly_fastest(comparison), comparison.is_settled
    keep_way(kernels.choices, question, kept, ways[kept], certain=certain)
    return ways[kept]


def _settling_s(prices: OperatorPrices, lanes: int) -> float:
    """Estimated seconds to trace a network for each way, and to race the choices."""
    ways = len(ways_to_trace(prices))
    run_ns = _run_ns(prices.choice(), lanes)
    round_ns = ways * _runs(run_ns) * run_ns
    traced_ns = max(LEAST_ROUNDS * round_ns, min(MOST_ROUNDS * round_ns, LONGEST_NS))
    return ways_s(run_ns, VARIANT_RACE, ways=max(ways, 4), traced_s=traced_ns / 1e9, made_s=_MADE_S)


def _run_ns(choice: OperatorChoice, lanes: int) -> int:
    """Nanoseconds of a run of a network with a choice, about."""
    return max(1, sum(choice.alone_ns) // lanes)


def _runs(run_ns: int) -> int:
    """Runs before each trace that counts, itself included."""
    return 1 if run_ns >= LONG_RUN_NS else 1 + max(1, min(MOST_RUNS, WARM_NS // run_ns))


def known_way(
    choices: KnownChoices, question: str, prices: OperatorPrices
) -> OperatorChoice | None:
    """Choice of an earlier call; None without one, or where it does not fit these prices."""
    known = choices.known(question)
    if known is None:
        return None
    return OperatorChoice.of_rows(prices, known.libraries, known.operators)


def keep_way(
    choices: KnownChoices, question: str, kept: str, choice: OperatorChoice, *, certain: bool
) -> None:
    """Store a choice and its title, if it is certain."""
    libraries = [maker for maker in choice.prices.by_maker if maker != TVM]
    stored = BuildChoice(
        kept=kept,
        notes=(),
        certain=certain,
        operators=choice.unsplit,
        libraries=choice.rows(libraries),
    )
    choices.keep(question, stored)


def with_choice(runner: StageKernels, choice: OperatorChoice) -> CompiledModel:
    """Network in sequential order, with its operators computed as chosen."""
    names = runner.library_names
    schedule = replace(
        sequential_schedule(runner.built.graph),
        operator_ns=choice.alone_ns,
        unsplit=choice.unsplit,
        libraries=choice.rows(names) if names else None,
    )
    # Not in each executor: cuts that were found for the prices are known to the session.
    return compiled_for(runner.session, runner.built, schedule, lanes=runner.lanes)


def ways_in_network(runner: StageKernels, prices: OperatorPrices) -> OperatorChoice:
    """Fastest way of each operator in sequential order; by price where a device tells no times.

    A network for each way is run by turns. The least of an operator's times counts, since others on
    the machine only add to it.
    """
    by_price = prices.choice()
    ways = ways_to_trace(prices)
    if len(ways) == 1:
        return next(iter(ways.values()))
    models = {name: with_choice(runner, way) for name, way in ways.items()}
    runs = _runs(_run_ns(by_price, runner.lanes))
    with executors_of(models, runner.session) as executors:
        least_ns = least_traced_ns(prices.graph, executors, runs)
    return fastest_of_traced(ways, least_ns) if least_ns else by_price


def ways_to_trace(prices: OperatorPrices) -> dict[str, OperatorChoice]:
    """Choices to be traced, by title: a maker computes all that it can and is not far slower at.

    Only short operators may stay on one lane.
    """
    by_price = prices.choice()
    ways: dict[str, OperatorChoice] = {}
    for maker in prices.by_maker:
        makers = tuple(
            maker if prices.is_promising(index, maker) else fastest
            for index, fastest in enumerate(by_price.makers)
        )
        for title, unsplit in (("split", ()), ("unsplit", by_price.short)):
            way = OperatorChoice(prices=prices, makers=makers, unsplit=unsplit)
            if way not in ways.values():
                ways[f"{maker}, {title}"] = way
    return ways


def least_traced_ns(
    graph: OperatorGraph,
    executors: Mapping[str, TimedExecutor],
    runs: int,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
) -> dict[int, dict[str, int]]:
    """Least nanoseconds of each operator that has a launch, by way.

    The clock tells when rounds have taken long enough.
    """
    numbers = {operator.name: index for index, operator in enumerate(graph.operators)}
    least: dict[int, dict[str, int]] = {}
    end_ns = clock_ns() + LONGEST_NS
    for round_ in range(MOST_ROUNDS):
        if round_ >= LEAST_ROUNDS and clock_ns() >= end_ns:
            break
        for name, executor in executors.items():
            for event in executor.trace(runs):
                ways = least.setdefault(numbers[event.operator], {})
                elapsed_ns = event.end_ns - event.start_ns
                ways[name] = min(elapsed_ns, ways.get(name, elapsed_ns))
    return least


def fastest_of_traced(
    ways: Mapping[str, OperatorChoice], least_ns: Mapping[int, Mapping[str, int]]
) -> OperatorChoice:
    """Way of each operator in the network where it was fastest; among equals the first.

    An operator without a launch is TVM's, unless its kernel is absent.
    """
    first = next(iter(ways.values()))
    own, unsplit = first.prices.by_maker[TVM], []
    makers = [TVM if index in own else maker for index, maker in enumerate(first.makers)]
    for index, taken in least_ns.items():
        way = ways[min(taken, key=taken.__getitem__)]
        makers[index] = way.makers[index]
        if index in way.unsplit:
            unsplit.append(index)
    return replace(first, makers=tuple(makers), unsplit=tuple(sorted(unsplit)))


def distinct_ways(
    by_price: OperatorChoice, in_network: OperatorChoice
) -> dict[str, OperatorChoice]:
    """Choices that are timed against each other, by title; the first is kept if none is faster."""
    ways = {"in the network": in_network}
    for name, way in (
        ("by price", by_price),
        ("all split", replace(in_network, unsplit=())),
        ("none of the short ones split", replace(in_network, unsplit=by_price.short)),
    ):
        if way not in ways.values():
            ways[name] = way
    return ways


def clearly_fastest(comparison: Comparison) -> str:
    """First contestant, or another one if it is clearly faster."""
    first, *others = comparison.names
    best = comparison.fastest(others)
    return best if comparison.speedup(best, over=first).low > CLEARLY_FASTER else first
