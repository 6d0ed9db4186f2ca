"""Fastest way of each operator in its place: whole networks in sequential order, traced.

Comes between prices of single operators and races of whole networks. An operator priced by itself
finds its data and weights in caches, and one busy second decides for all of its workload. In the
network each operator meets its real caches, and with runs far apart and enough rounds, one of them
is undisturbed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import LibraryOperators
from tvm_ios.devices.protocol import TimedExecutor
from tvm_ios.measure.compare import LONG_RUN_NS
from tvm_ios.profile.prices import KernelPrices
from tvm_ios.profile.race import compiled_for, executors_of
from tvm_ios.search.baselines import sequential_schedule

__all__ = ["OperatorWays", "ways_by_price", "ways_in_network", "with_ways"]

LEAST_ROUNDS = 5
MOST_ROUNDS = 12
LONGEST_NS = 3_000_000_000
"""Nanoseconds after which no more rounds begin, once there are enough."""
WARM_NS = 10_000_000
"""Nanoseconds that a network runs before the run of a round that counts, at least once; networks
with long runs go without."""
MOST_RUNS = 20


@dataclass(frozen=True, slots=True)
class OperatorWays:
    """Maker of each operator, and operators that idle lanes do not help with."""

    libraries: Mapping[int, str]
    """Key of the operator library that computes each operator, where one does."""
    unsplit: tuple[int, ...]
    """Operators that stay on one lane."""

    def rows(self, names: Sequence[str]) -> tuple[LibraryOperators, ...]:
        """Operators of each of these libraries, as a schedule has them."""
        return tuple(
            LibraryOperators(
                name, tuple(sorted(i for i, by in self.libraries.items() if by == name))
            )
            for name in names
        )


def ways_by_price(prices: KernelPrices) -> OperatorWays:
    """Way of each operator by the prices of single operators."""
    return OperatorWays(dict(prices.fastest_library), prices.unsplit)


def with_ways(prices: KernelPrices, ways: OperatorWays) -> CompiledModel:
    """Network in sequential order, with its operators computed in these ways."""
    names = tuple(prices.runner.library_names)
    schedule = replace(
        sequential_schedule(prices.graph),
        operator_ns=prices.operator_ns,
        unsplit=ways.unsplit,
        libraries=ways.rows(names) if names else None,
    )
    runner = prices.runner
    # Not in each executor: cuts that were found for the prices are known to the session.
    return compiled_for(runner.session, runner.built, schedule, lanes=runner.lanes)


def ways_in_network(
    prices: KernelPrices, *, clock_ns: Callable[[], int] = time.perf_counter_ns
) -> OperatorWays:
    """Fastest way of each operator in sequential order; by price where a device tells no times.

    A network for each way is run by turns, with all operators computed that way that can be and are
    not priced far slower. The least of an operator's times counts, since others on the machine only
    add to it. Only short operators may stay on one lane. The operators have been priced; the clock
    tells when rounds have taken long enough.
    """
    ways: dict[str, OperatorWays] = {}
    for library in (None, *prices.runner.library_names):
        for title, unsplit in (("split", ()), ("whole", prices.short)):
            way = OperatorWays(_mostly_by(library, prices), unsplit)
            if way not in ways.values():
                ways[f"{library or 'own kernels'}, {title}"] = way
    if len(ways) == 1:
        return next(iter(ways.values()))
    models = {name: with_ways(prices, way) for name, way in ways.items()}
    run_ns = max(1, sum(prices.operator_ns) // prices.runner.lanes)
    runs = 1 if run_ns >= LONG_RUN_NS else 1 + max(1, min(MOST_RUNS, WARM_NS // run_ns))
    with executors_of(models, prices.runner.session) as executors:
        least_ns = _least_ns(prices.graph, executors, runs, clock_ns)
    return _fastest(ways, least_ns) if least_ns else ways_by_price(prices)


def _mostly_by(library: str | None, prices: KernelPrices) -> dict[int, str]:
    """Libraries of operators: this one (None: own kernels), or the fastest if it is far off."""
    fastest = prices.fastest_library
    return {
        index: by
        for index in range(len(prices.graph))
        if (by := library if prices.ways.is_promising(index, library) else fastest.get(index))
    }


def _least_ns(
    graph: OperatorGraph,
    executors: Mapping[str, TimedExecutor],
    runs: int,
    clock_ns: Callable[[], int],
) -> dict[int, dict[str, int]]:
    """Least nanoseconds of each operator that has a launch, by way."""
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


def _fastest(
    ways: Mapping[str, OperatorWays], least_ns: Mapping[int, Mapping[str, int]]
) -> OperatorWays:
    """Way of each operator in the network where it was fastest; among equals the first."""
    libraries: dict[int, str] = {}
    unsplit = []
    for index, taken in least_ns.items():
        way = ways[min(taken, key=taken.__getitem__)]
        if index in way.libraries:
            libraries[index] = way.libraries[index]
        if index in way.unsplit:
            unsplit.append(index)
    return OperatorWays(libraries, tuple(sorted(unsplit)))
