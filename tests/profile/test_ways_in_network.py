"""Ways of operators in whole networks: which are traced, and what is chosen of the times."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.pricing import LANES, chain_graph, plain_choice, plain_prices
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.operator_prices import LONG_NS, TVM, OperatorChoice
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.profile.ways_in_network import (
    LEAST_ROUNDS,
    LONGEST_NS,
    MOST_ROUNDS,
    fastest_of_traced,
    least_traced_ns,
    ways_in_network,
    ways_to_trace,
    with_choice,
)

GRAPH = chain_graph(4)
NAMES = [operator.name for operator in GRAPH.operators]


class Traced:
    """An executor that tells made-up times, one list an operator, a run after the other."""

    def __init__(self, times_ns: dict[str, list[int]]) -> None:
        self.times_ns = times_ns
        self.asked = 0

    def trace(self, runs: int) -> list[TraceEvent]:
        assert runs >= 2  # the first one finds the caches of another network
        row = self.asked
        self.asked += 1
        return [
            TraceEvent(
                operator=name, stage=0, group=0, lane=0, start_ns=7, end_ns=7 + values[row % 5]
            )
            for name, values in self.times_ns.items()
        ]


def test_only_short_operators_may_stay_on_one_lane() -> None:
    long = ways_to_trace(plain_prices(GRAPH, [LONG_NS] * 4))
    assert {title: way.unsplit for title, way in long.items()} == {"tvm, split": ()}
    short = ways_to_trace(plain_prices(GRAPH, [1000, 1000, LONG_NS, 1000]))
    assert {title: way.unsplit for title, way in short.items()} == {
        "tvm, split": (),
        "tvm, unsplit": (0, 1, 3),
    }


def test_a_maker_computes_all_that_it_is_not_far_slower_at() -> None:
    prices = plain_prices(GRAPH, [LONG_NS] * 4, {"a": {0: LONG_NS // 2, 1: 9 * LONG_NS, 2: 9}})
    makers = {title: way.makers for title, way in ways_to_trace(prices).items()}
    assert makers["tvm, split"] == (TVM, TVM, "a", TVM)
    assert makers["a, split"] == ("a", TVM, "a", TVM)


def test_the_least_time_in_the_network_chooses_the_lanes() -> None:
    split = {name: [90, 90, 10, 90, 90] for name in NAMES}  # disturbed in all but one round
    unsplit = {name: [20, 20, 20, 20, 20] for name in NAMES} | {NAMES[3]: [8, 99, 99, 99, 99]}
    ways = ways_to_trace(plain_prices(GRAPH, [1000] * 4))
    executors = dict(zip(ways, [Traced(split), Traced(unsplit)], strict=True))
    least_ns = least_traced_ns(GRAPH, executors, 2, clock_ns=lambda: 0)
    assert fastest_of_traced(ways, least_ns) == plain_choice(GRAPH, unsplit=(3,))


def test_an_operator_without_a_launch_is_tvms() -> None:
    prices = plain_prices(GRAPH, [1000] * 4, {"a": {0: 500, 1: 500}})
    way = OperatorChoice(prices=prices, makers=("a", "a", TVM, TVM), unsplit=(0, 1))
    found = fastest_of_traced({"only": way}, {1: {"only": 7}})
    assert (found.makers, found.unsplit) == ((TVM, "a", TVM, TVM), (1,))


def test_rounds_in_the_network_end_when_they_have_taken_long_enough() -> None:
    executors = {name: Traced({each: [20] * 5 for each in NAMES}) for name in "ab"}
    least_traced_ns(GRAPH, executors, 2, clock_ns=lambda: 0)
    assert {executor.asked for executor in executors.values()} == {MOST_ROUNDS}
    clock = iter(range(0, 10**15, 2 * LONGEST_NS))
    for executor in executors.values():
        executor.asked = 0
    least_traced_ns(GRAPH, executors, 2, clock_ns=lambda: next(clock))
    assert {executor.asked for executor in executors.values()} == {LEAST_ROUNDS}


@pytest.mark.skipif(LANES < 2, reason="one core: there is no lane that could help")
def test_networks_are_compiled_as_chosen(runner: RelayStageRunner) -> None:
    graph = runner.built.graph
    for unsplit in ((), range(len(graph))):
        launches = with_choice(runner, plain_choice(graph, unsplit=unsplit)).plan.launches
        assert {launch.split for launch in launches} == {not unsplit}


@pytest.mark.skipif(LANES < 2, reason="one core: there is no lane that could help")
def test_every_operator_has_a_way_from_real_traces(kernels: MeasuredKernels) -> None:
    by_price = plain_choice(kernels.graph)
    choice = ways_in_network(kernels.runner, by_price.prices)
    assert choice.makers == by_price.makers
    assert set(choice.unsplit) <= set(by_price.short)


def test_a_device_that_tells_no_times_leaves_it_to_prices(runner: RelayStageRunner) -> None:
    def silent(model):
        executor = model.executor()
        executor.trace = lambda _runs: []
        return executor

    session = SimpleNamespace(executor=silent, libraries=runner.session.libraries)
    asked = SimpleNamespace(
        built=runner.built, lanes=runner.lanes, library_names={}, session=session
    )
    graph = runner.built.graph
    prices = plain_prices(graph, [1000 + index for index in range(len(graph))])
    assert ways_in_network(asked, prices) == prices.choice()
