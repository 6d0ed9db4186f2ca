"""Searches with measured prices, and the time that is left to the race after them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.pricing import MEASURE, plain_choice, stage_runner
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.host import default_lanes
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.profile import find_schedules as module
from tvm_ios.profile.find_schedules import find_schedules, schedule_build
from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.race import race_s
from tvm_ios.search.baselines import greedy_schedule
from tvm_ios.search.options import SearchOptions
from tvm_ios.support.time_budget import TimeBudget


@pytest.mark.slow
@pytest.mark.skipif(default_lanes() < 2, reason="one core: there is no lane that could help")
def test_time_is_set_aside_for_the_race_of_the_call(branching_built) -> None:
    """By what a run takes with the help of all lanes, and in as many rounds as it has."""

    budget = TimeBudget(1000, clock_s=lambda: 0.0)
    compare = CompareOptions(rounds=11, min_repeat_ms=1.0)
    with stage_runner(branching_built, lanes=2) as runner:
        kernels = MeasuredKernels(runner, options=MEASURE)
        choice = measure_operators(kernels).choice()
        prices = StagePrices(kernels, replace(choice, unsplit=()))
        limits = {"ios": SearchOptions(max_chain_size=1, least_gain_percent=0.0)}
        found = find_schedules(prices, limits, budget=budget, compare=compare)
        singles = [Stage(((index,),)) for index in range(len(branching_built.graph))]
        assert found.sequential_ns == sum(prices.price(branching_built.graph, singles))
    assert found.sequential_ns == found.searches["ios"].sequential_ns
    # Lists are made by now, and the race is to come.
    assert budget.left_s - budget.spare_s == pytest.approx(race_s(found.sequential_ns, compare))


@pytest.mark.slow
def test_without_time_for_prices_there_is_sequential_order(branching_built) -> None:
    call = replace(MeasuringCall.here(lanes=1), budget=TimeBudget(1e-6))
    with call.open() as session:
        found = schedule_build(branching_built, session, call, SearchOptions())
    assert list(found.schedules) == ["sequential"]
    assert (found.prices, found.counters.priced) == (None, 0)
    assert found.known_ns(found.schedules["sequential"]) == ()
    assert found.notes == ()
    assert call.budget.cuts == ("operators were not priced, and no other order was tried",)


@pytest.mark.parametrize(
    ("gain_percent", "races", "notes"), [(0.0, False, 0), (0.9, False, 1), (1.1, True, 0)]
)
@pytest.mark.slow
def test_next_to_nothing_is_not_worth_a_race(
    branching_built, monkeypatch, gain_percent: float, races: bool, notes: int
) -> None:
    """Of all stages of several groups one gains so much of sequential order; lists begin there."""
    single_ns = 100_000
    sequential_ns = len(branching_built.graph) * single_ns
    _, pair, *_ = (
        stage for stage in greedy_schedule(branching_built.graph).stages if len(stage.groups) > 1
    )

    def price(_: StagePrices, _graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
        gain_ns = round(sequential_ns * gain_percent / 100)
        return [
            single_ns * len(stage.operators)
            + (0 if len(stage.groups) == 1 else -gain_ns if stage == pair else 1)
            for stage in stages
        ]

    begun = []

    def fastest_list(_: StagePrices, start: InterOpSchedule, **_options) -> InterOpSchedule:
        begun.append(start)
        return start

    monkeypatch.setattr(StagePrices, "price", price)
    monkeypatch.setattr(module, "fastest_list", fastest_list)
    limits = SearchOptions.of(strategies="concurrent", max_chain_size=1, least_gain_percent=0.0)
    with stage_runner(branching_built, lanes=1) as runner:
        kernels = MeasuredKernels(runner, options=MEASURE)
        prices = StagePrices(kernels, plain_choice(kernels.graph))
        found = find_schedules(prices, {"ios": limits}, lists={"list": "ios"})
    in_order = found.schedules["sequential"]
    schedule, result = found.schedules["ios"], found.searches["ios"]
    assert (schedule.stages != in_order.stages) == (pair in schedule.stages) == races
    assert ("ios" in found.without_repetitions()) == races
    assert schedule.scheduler == "ios"
    assert schedule.latency_ns == result.latency_ns == sum(price(prices, None, schedule.stages))
    assert len(result.notes) == notes
    (start,) = begun
    assert (pair in start.stages) == (gain_percent > 0)


@pytest.mark.skipif(default_lanes() < 2, reason="one core: there is no lane that could help")
@pytest.mark.slow
@pytest.mark.parametrize("least_gain_percent", [0.0, 99.0])
def test_stages_that_can_gain_too_little_are_not_searched(
    branching_built, least_gain_percent: float
) -> None:
    """Neither are lists made, nor is greedy order raced; the report says so."""
    with stage_runner(branching_built, lanes=2) as runner:
        kernels = MeasuredKernels(runner, options=MEASURE)
        prices = StagePrices(kernels, measure_operators(kernels).choice())
        limits = {"ios": SearchOptions(least_gain_percent=least_gain_percent)}
        found = find_schedules(prices, limits, lists={"list": "ios"})
    searched = least_gain_percent == 0
    assert searched or set(found.without_repetitions()) <= {"sequential", "ios"}
    assert any("stages were not searched" in note for note in found.notes) != searched
    schedule = found.schedules["ios"]
    assert searched or all(len(each.groups) == 1 or each.is_merge for each in schedule.stages)
