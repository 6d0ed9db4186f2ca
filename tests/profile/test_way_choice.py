"""Makers and lanes of operators: traced, raced, settled once, and known from then on."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.pricing import LANES, MEASURE, chain_graph, plain_choice, plain_prices
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.efficiencies import Efficiencies
from tvm_ios.cost.known_choices import KnownChoices
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.devices.traits import CPU
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.profile import way_choice
from tvm_ios.profile.list_choice import list_from
from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
from tvm_ios.profile.operator_prices import (
    EXACT,
    LONG_NS,
    TVM,
    OperatorChoice,
    OperatorPrice,
    OperatorPrices,
)
from tvm_ios.profile.predicted_prices import PricePredictor
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.profile.way_choice import (
    LEAST_ROUNDS,
    LONG_OPERATOR_NS,
    LONGEST_NS,
    MOST_ROUNDS,
    clearly_fastest,
    distinct_ways,
    fastest_of_traced,
    keep_way,
    known_way,
    least_traced_ns,
    predicted_prices,
    settled_choice,
    settled_prices,
    ways_in_network,
    ways_to_trace,
    with_choice,
)
from tvm_ios.search.baselines import sequential_schedule

GRAPH = chain_graph(4)
NAMES = [operator.name for operator in GRAPH.operators]
CONTEXT = ProfileContext(device="fake", lanes=2, tvm_version="0.17.0", kernels="llvm")
CHOICE = plain_choice(GRAPH, unsplit=(1, 2))


@pytest.fixture
def choices(tmp_path: Path) -> KnownChoices:
    return KnownChoices(ProfileDatabase(tmp_path / "prices.sqlite"), CONTEXT)


def test_ways_that_are_the_same_are_timed_once() -> None:
    long = plain_choice(GRAPH, 1 << 20)  # so nothing is short
    assert list(distinct_ways(long, long)) == ["in the network"]
    by_price = replace(long, unsplit=(1,))
    assert distinct_ways(by_price, long) == {"in the network": long, "by price": by_price}


def test_ways_between_the_two_are_timed_too() -> None:
    ways = distinct_ways(replace(CHOICE, unsplit=(2,)), CHOICE)
    assert {name: way.unsplit for name, way in ways.items()} == {
        "in the network": (1, 2),
        "by price": (2,),
        "all split": (),
        "none of the short ones split": (0, 1, 2, 3),
    }


@pytest.mark.parametrize(
    ("others_ns", "kept"), [((99.0, 99.5), "one"), ((97.0, 96.0), "three"), ((97.0, 99.0), "two")]
)
def test_the_first_way_is_kept_unless_another_one_is_clearly_faster(others_ns, kept) -> None:
    row = CompareRound(run_ns=(100.0, *others_ns), ping_pong_ns=50.0, slow=False)
    names = ("one", "two", "three")
    race = Comparison(names=names, rounds=(row,) * 9, confidence=0.95, notes=())
    assert clearly_fastest(race) == kept


def test_a_choice_of_busy_times_is_made_anew(choices: KnownChoices) -> None:
    known = partial(known_way, choices, "ways", CHOICE.prices)
    assert known() is None
    keep_way(choices, "ways", "by price", CHOICE, certain=False)
    assert known() is None
    keep_way(choices, "ways", "by price", CHOICE, certain=True)
    assert known() == CHOICE


def test_a_choice_is_kept_with_its_libraries(choices: KnownChoices) -> None:
    prices = plain_prices(GRAPH, [10_000] * 4, {"a": {0: 500, 2: 500}})
    keep_way(choices, "ways", "by price", prices.choice(), certain=True)
    assert known_way(choices, "ways", prices) == prices.choice()
    assert known_way(choices, "ways", plain_prices(GRAPH, [10_000] * 4)) is None


@pytest.mark.slow(1)
def test_prices_decide_alone_where_operators_are_long(kernels: MeasuredKernels) -> None:
    graph = kernels.graph
    prices = plain_prices(graph, [LONG_OPERATOR_NS] * len(graph))
    assert settled_choice(kernels, prices) == prices.choice()


@pytest.mark.slow(1)
@pytest.mark.skipif(LANES < 2, reason="one core: there is no lane that could help")
def test_ways_that_were_settled_are_not_timed_again(runner: StageKernels, tmp_path: Path) -> None:
    database = ProfileDatabase(tmp_path / "prices.sqlite")
    kernels = MeasuredKernels(runner, database=database, options=MEASURE)
    settled = plain_choice(kernels.graph, unsplit=(1,))
    question = f"ways of operators in {kernels.identity}"
    keep_way(kernels.choices, question, "by price", settled, certain=True)
    assert settled_choice(kernels, settled.prices) == settled
    assert kernels.counters.requested == 0


@pytest.mark.skipif(LANES < 2, reason="one core: there is no lane that could help")
def test_lanes_are_those_of_the_usual_mode_in_the_slow_one(
    runner: StageKernels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slow mode passes, and the file stays."""
    half = PricePredictor(speeds=CPU.speeds, lanes=2, efficiencies=Efficiencies([]))
    monkeypatch.setattr(MeasuredKernels, "predictor", half)
    monkeypatch.setattr(runner, "ping_pong_ns", lambda: 260.0)
    kernels = MeasuredKernels(
        runner,
        database=ProfileDatabase(tmp_path / "prices.sqlite"),
        options=replace(MEASURE, mode=ModeOptions(patience_s=0.0)),
    )
    every = range(len(kernels.graph))
    gains_nothing = {index: OperatorPrice(alone_ns=40_000, helped_ns=40_000) for index in every}
    slow = OperatorPrices(graph=kernels.graph, by_maker={TVM: gains_nothing})
    assert slow.choice().unsplit == (*every,)
    usual = settled_choice(kernels, slow)
    assert (usual.unsplit, usual.prices) == ((), slow)
    assert known_way(kernels.choices, f"ways of operators in {kernels.identity}", slow) is None
    assert kernels.counters.requested == 0


@pytest.mark.slow(1)
@pytest.mark.skipif(LANES < 2, reason="one core: there is no lane that could help")
def test_prices_are_settled_by_measuring(kernels: MeasuredKernels) -> None:
    prices = settled_prices(kernels)
    assert kernels.counters.priced > 0
    assert set(prices.choice.unsplit) <= set(prices.choice.prices.choice().short)
    assert prices.alone_ns == prices.choice.alone_ns


def test_nothing_is_run_where_one_maker_computes_what_is_predicted(
    kernels: MeasuredKernels,
) -> None:
    prices = settled_prices(kernels, predict=True)
    graph, needs_no_kernel = prices.graph, kernels.runner.needs_no_kernel
    stages = [Stage(((index,),)) for index in range(len(graph))]
    told_ns = [
        1 if needs_no_kernel(index) else prices.choice.prices.price_ns(index, TVM)
        for index in range(len(graph))
    ]
    assert prices.price(graph, stages) == told_ns
    assert prices.known_ns(sequential_schedule(graph)) == tuple(told_ns)
    assert kernels.counters.requested == 0
    assert prices.is_predicted
    listed = list_from(prices, sequential_schedule(graph), lanes=LANES)
    assert "by the speeds of a lane" in listed.as_text()
    (note,) = (note for note in prices.notes if "predictions by the speeds of a lane" in note)
    kernels_needed = sum(not needs_no_kernel(index) for index in range(len(graph)))
    assert note.startswith(f"times of {kernels_needed} operators are predictions")


@pytest.mark.slow(1)
def test_close_calls_are_measured_and_nothing_else(
    kernels: MeasuredKernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(way_choice, "close_calls", lambda _prices: (0, 2))
    prices = predicted_prices(kernels)
    errors = [price.error for price in prices.by_maker[TVM].values()]
    assert errors[0] == errors[2] == EXACT
    assert prices.predicted == sum(error != EXACT for error in errors) > 0
    assert 0 < kernels.counters.priced <= 4


@pytest.mark.slow(1)
def test_a_measured_call_tells_how_far_off_predictions_were(kernels: MeasuredKernels) -> None:
    prices = StagePrices(kernels, measure_operators(kernels).choice())
    assert any(note.startswith("a prediction of all operators") for note in prices.notes)


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
def test_networks_are_compiled_as_chosen(runner: StageKernels) -> None:
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


def test_a_device_that_tells_no_times_leaves_it_to_prices(runner: StageKernels) -> None:
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
