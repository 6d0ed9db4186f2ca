"""Lists made with measured prices, and the choice of one of a few."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.pricing import LANES, MEASURE, plain_choice
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.cost.database import open_database
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.profile import list_choice
from tvm_ios.profile.measured_kernels import MeasuredKernels, measure_operators
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.runtime.libraries.open_libraries import OpenLibraries
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule


def test_a_list_is_made_of_known_prices_and_splits_what_it_likes(kernels: MeasuredKernels) -> None:
    prices = StagePrices(kernels, measure_operators(kernels).choice())
    start = greedy_schedule(prices.graph)
    measured = kernels.counters.priced
    listed = list_choice.list_from(prices, start, lanes=LANES)
    assert kernels.counters.priced == measured
    times = prices.operator_times(start)
    launched = {i for i in range(len(prices.graph)) if not kernels.runner.needs_no_kernel(i)}
    assert all(times.alone_ns[index] == prices.alone_ns[index] for index in launched)
    unsplit = launched.intersection(prices.choice.unsplit)
    assert all(times.helped_ns[index] == times.alone_ns[index] for index in unsplit)
    rows_ns = prices.known_ns(listed)
    assert len(rows_ns) == len(listed.stages)
    assert sum(rows_ns) == sum(
        times.alone_ns[index] if index in listed.unsplit else times.helped_ns[index]
        for index in range(len(prices.graph))
    )
    annotated = prices.annotate(listed)
    assert annotated.unsplit == listed.unsplit
    assert set(prices.choice.unsplit) <= set(listed.unsplit)
    assert annotated.operator_ns == prices.alone_ns
    assert annotated.home_lanes == listed.home_lanes
    assert lower_schedule(kernels.runner.built, annotated, lanes=LANES).plan.lanes == LANES


@pytest.mark.skipif(LANES < 2, reason="one core: a list has one lane")
def test_of_a_few_lists_the_fastest_is_kept(
    runner: StageKernels, tmp_path: Path, monkeypatch
) -> None:
    database = open_database(tmp_path / "prices.sqlite")
    kernels = MeasuredKernels(runner, options=MEASURE, database=database)
    prices = StagePrices(kernels, plain_choice(kernels.graph))
    start = sequential_schedule(prices.graph)
    raced, completed = {}, []
    monkeypatch.setattr(OpenLibraries, "complete", lambda _, plan: completed.append(plan) or plan)

    def variant_race(models, *_where):
        raced.update(models)
        run_ns = tuple(100.0 - number for number in range(len(models)))
        row = CompareRound(run_ns=run_ns, ping_pong_ns=50.0, slow=False)
        return Comparison(names=tuple(models), rounds=(row,) * 9, confidence=0.95, notes=())

    monkeypatch.setattr(list_choice, "variant_race", variant_race)

    def list_from(prices, start, *, lanes, seed):
        """As many lists as there are lanes to rotate, each twice."""
        turn = seed // 2
        homes = tuple((index + turn) % lanes for index in range(len(prices.graph)))
        return replace(start, home_lanes=homes, latency_ns=10 - turn)

    monkeypatch.setattr(list_choice, "list_from", list_from)
    kept = list_choice.fastest_list(prices, start, lanes=2, seeds=range(4))
    assert len(raced) == 2
    assert [model.plan for model in raced.values()] == completed  # with what the session found
    assert kept == raced["2"].schedule
    assert kept.home_lanes[0] == 1
    raced.clear()
    assert list_choice.fastest_list(prices, start, lanes=2, seeds=range(4)) == kept
    only = list_choice.fastest_list(prices, start, lanes=2, seeds=range(1))
    assert only.latency_ns == 10
    assert raced == {}
