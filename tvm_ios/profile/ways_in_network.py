"""Fastest way of each operator in its place: whole networks in sequential order, traced.

Comes between prices of single operators and races of whole networks. An operator priced by itself
finds its data and weights in caches, and one busy second decides for all of its workload. In the
network each operator meets its real caches, and with runs far apart and enough rounds, one of them
is undisturbed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.devices.protocol import TimedExecutor
from tvm_ios.measure.compare import LONG_RUN_NS
from tvm_ios.profile.operator_prices import TVM, OperatorChoice, OperatorPrices
from tvm_ios.profile.race import compiled_for, executors_of
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.search.baselines import sequential_schedule

__all__ = [
    "fastest_of_traced",
    "least_traced_ns",
    "ways_in_network",
    "ways_to_trace",
    "with_choice",
]

LEAST_ROUNDS = 5
MOST_ROUNDS = 12
LONGEST_NS = 3_000_000_000
"""Nanoseconds after which no more rounds begin, once there are enough."""
WARM_NS = 10_000_000
"""Nanoseconds that a network runs before the run of a round that counts, at least once; networks
with long runs go without."""
MOST_RUNS = 20


def with_choice(runner: RelayStageRunner, choice: OperatorChoice) -> CompiledModel:
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


def ways_in_network(runner: RelayStageRunner, prices: OperatorPrices) -> OperatorChoice:
    """Fastest way of each operator in sequential order; by price where a device tells no times.

    A network for each way is run by turns. The least of an operator's times counts, since others on
    the machine only add to it.
    """
    by_price = prices.choice()
    ways = ways_to_trace(prices)
    if len(ways) == 1:
        return next(iter(ways.values()))
    models = {name: with_choice(runner, way) for name, way in ways.items()}
    run_ns = max(1, sum(by_price.alone_ns) // runner.lanes)
    runs = 1 if run_ns >= LONG_RUN_NS else 1 + max(1, min(MOST_RUNS, WARM_NS // run_ns))
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

    An operator without a launch is TVM's.
    """
    first = next(iter(ways.values()))
    makers, unsplit = [TVM] * len(first.makers), []
    for index, taken in least_ns.items():
        way = ways[min(taken, key=taken.__getitem__)]
        makers[index] = way.makers[index]
        if index in way.unsplit:
            unsplit.append(index)
    return replace(first, makers=tuple(makers), unsplit=tuple(sorted(unsplit)))
