"""Experiments that the analytical model computes: published numbers, exact counts, directions."""

from __future__ import annotations

from statistics import geometric_mean

import pytest

from tvm_ios.cost.protocol import FloorModel
from tvm_ios_lab.analytical.gpu import GPU
from tvm_ios_lab.harness.checkout import sample_part
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings
from tvm_ios_lab.harness.published_system import SYSTEMS
from tvm_ios_lab.papers import (
    batch_size,
    batch_specialization,
    device_specialization,
    pruning,
    sample,
    schedules,
    utilization,
)

QUICK = Settings(lanes=2, quick=True)


def measured(experiment, tmp_path, choose):
    """Outcomes of the cells that are computed and chosen."""
    cells = [cell for cell in experiment.cells(QUICK) if cell.run is None and choose(cell)]
    bench = Bench(folder=tmp_path)
    return [Outcome(cell=cell, found=experiment.measure(cell, bench)) for cell in cells]


def column(experiment, outcomes, name):
    table = experiment.table(outcomes)
    return [row[table.header.index(name)] for row in table.rows]


def test_published_latencies_have_the_published_means():
    means = [
        geometric_mean(column) for column in zip(*schedules.PUBLISHED_MS.values(), strict=True)
    ]
    # The README prints latencies with two digits, so its means are of other ones.
    assert means == pytest.approx([5.74, 4.67, 5.28, 4.24, 4.11], abs=0.011)
    ios = [schedules.published_speedup(each, "IOS-both") for each in schedules.PUBLISHED_MS]
    assert [round(each, 2) for each in ios] == [1.62, 1.41, 1.43, 1.18]
    assert round(geometric_mean(ios), 2) == 1.40
    assert schedules.PUBLISHED_COST_S["NasNet-A"][-1] == 3653


@pytest.mark.parametrize(
    "network",
    [
        "Inception V3",
        "SqueezeNet",
        pytest.param("RandWire", marks=[pytest.mark.slow, pytest.mark.full]),
        pytest.param("NasNet-A", marks=[pytest.mark.slow, pytest.mark.full]),
    ],
)
def test_five_schedules_are_as_fast_as_published_and_in_that_order(tmp_path, network):
    experiment = schedules.Schedules()
    outcomes = measured(
        experiment, tmp_path, lambda cell: (cell.device, cell.network) == ("V100", network)
    )
    (outcome,) = outcomes
    found = outcome.found
    told = schedules.PUBLISHED_MS[network]
    assert [found.ms[name] for name in schedules.NAMES] == pytest.approx(told, rel=0.16)
    agreement = schedules.agreement(network, found.ms)
    assert all(abs(error) < 0.08 for error in agreement.errors.values())
    right, pairs = agreement.order()
    assert right == pairs > 0
    assert f"{pairs} of {pairs} pairs" in column(experiment, outcomes, "error")
    printed = column(experiment, outcomes, "published ms (V100)")[:5]
    assert printed == [f"{ms:.2f}" for ms in told]
    (panel,) = experiment.panels(outcomes)
    shown = {(series.name, series.published): series.values for series in panel.series}
    assert shown["IOS-both", True][0] == min(told) / told[-1]
    assert max(max(v) for (_, told), v in shown.items() if not told) == 1.0


@pytest.mark.slow(1)
def test_pruning_is_counted_exactly_and_lazy_searches_lose_nothing(tmp_path):
    experiment = pruning.Pruning()
    (outcome,) = measured(experiment, tmp_path, lambda cell: cell.network == "Inception V3")
    lazy, all_of_them = (
        [s for s in outcome.found.searches if s.lazy is kind] for kind in (True, False)
    )
    for one, other in zip(lazy, all_of_them, strict=True):
        assert one.ms == other.ms
        assert one.priced < other.priced == other.possible == one.possible
        assert (one.states, one.transitions) == (other.states, other.transitions)
    # Sums over the blocks that differ, as an independent enumeration has them.
    assert [search.states for search in lazy] == [1206] * 6
    assert [search.transitions for search in lazy] == [9420, 9968, 18219, 19758, 23302, 25486]
    by_limits = {(s.max_group_size, s.max_num_groups): s.ms for s in lazy}
    told = {limits: ms for limits, (ms, _) in pruning.PUBLISHED["Inception V3"].items()}
    for latencies in (by_limits, told):
        assert min(latencies, key=latencies.get) == (3, 8)
        assert latencies[1, 3] == max(latencies.values())
    assert pruning.PUBLISHED["NasNet-A"][3, 8] == (16.0, 3412)
    *errors, mean = column(experiment, [outcome], "error")
    over = by_limits[1, 3] / by_limits[3, 8] / (told[1, 3] / told[3, 8])
    assert errors[:2] == [f"{over - 1:+.0%}"] * 2
    assert errors[-2:] == ["-", "-"]
    assert 0 < float(mean.rstrip("%")) < 5


@pytest.mark.slow(1)
def test_schedules_are_best_on_their_own_device(tmp_path):
    experiment = device_specialization.DeviceSpecialization()
    outcomes = measured(experiment, tmp_path, lambda cell: cell.runs_on in ("V100", "K80"))
    for outcome in outcomes:
        ms = dict(zip(outcome.found.found_for, outcome.found.ms, strict=True))
        own = ms[outcome.cell.runs_on]
        assert own == min(ms["V100"], ms["K80"])
        # That for the H100 was found among more endings, and for other waits.
        assert own < 1.01 * ms["H100"]
    told = device_specialization.PUBLISHED_MS
    assert told["K80", "K80"] < told["K80", "V100"]
    assert told["V100", "V100"] < told["V100", "K80"]
    published = column(experiment, outcomes, "published ms")
    assert sorted(published) == ["-", "-", "-", "13.87", "14.65", "4.03", "4.49"]
    # Of the K80 at its base clock and without dual issue.
    k80 = dict(zip(outcomes[1].found.found_for, outcomes[1].found.ms, strict=True))
    assert [k80["K80"], k80["V100"]] == pytest.approx([13.87, 14.65], rel=0.05)
    errors = column(experiment, outcomes, "error")
    assert [each for each in errors if each != "-"] == ["-6%", "-2%", "4.0%"]


@pytest.mark.slow(1)
def test_schedules_are_best_at_their_own_batch(tmp_path):
    experiment = batch_specialization.BatchSpecialization()
    outcomes = measured(
        experiment, tmp_path, lambda cell: cell.device == "V100" and cell.batch < 128
    )
    for place, outcome in enumerate(outcomes):
        assert outcome.found.ms[place] == min(outcome.found.ms)
        assert (tmp_path / outcome.found.picture).read_bytes().startswith(b"\x89PNG")
    for place, batch in enumerate(batch_specialization.BATCHES):
        told = batch_specialization.PUBLISHED_MS[batch]
        assert told[place] == min(told)
    *errors, mean = column(experiment, outcomes, "error")
    assert [each == "-" for each in errors] == [True, False, False, False, True, False]
    assert 0 < float(mean.rstrip("%")) < 10


@pytest.mark.slow
def test_gains_fall_with_the_batch(tmp_path):
    experiment = batch_size.BatchSize()
    outcomes = measured(experiment, tmp_path, lambda c: c.device == "V100" and c.batch < 64)
    ours = [outcome.found.speedup for outcome in outcomes]
    told = [seq / ios for seq, _, ios in batch_size.PUBLISHED_MS.values()]
    assert ours == sorted(ours, reverse=True)
    assert told == sorted(told, reverse=True)
    assert [round(each, 2) for each in told] == [1.57, 1.18, 1.13, 1.09, 1.06]
    assert column(experiment, outcomes, "error") == ["+7%", "-6%", "-6%", "6.7%"]


def test_the_sample_is_the_readmes(tmp_path):
    part = sample_part()
    macs = 15 * 15 * 9 * 375 * (375 + 750 + 375 + 750)
    assert sum(each.flops for each in part.graph.operators[:4]) == pytest.approx(2 * macs, rel=1e-3)
    outcomes = measured(sample.Sample(), tmp_path, lambda cell: cell.device == "V100")
    first, parallel, _ = outcomes[0].found.schedules
    assert first.stages == ("conv1", "conv2", "conv3", "conv4", "concat")
    assert first.over_sequential == 1.0 < parallel.over_sequential
    assert sum(first.stage_us) / 1e3 == pytest.approx(first.ms)
    assert (tmp_path / parallel.picture).exists()
    error = parallel.over_sequential / (0.486 / 0.333) - 1
    said = [each for each in column(sample.Sample(), outcomes, "error") if each]
    assert said == ["-", f"{error:+.0%}", "-"]
    told = {name: sum(us) / 1e3 for name, us in sample.PUBLISHED_STAGES_US.items()}
    assert told == {name: pytest.approx(ms, abs=0.001) for name, ms in sample.PUBLISHED_MS.items()}


def test_busy_time_is_spread_over_the_axis(tmp_path):
    (outcome,) = measured(utilization.Utilization(), tmp_path, lambda c: c.device == "V100")
    for run in outcome.found.runs:
        times = tuple(run.run_us * place / 10 for place in range(11))
        shown = utilization.busy_over_time(run, times)
        assert sum(shown[:10]) / 10 == pytest.approx(run.mean, rel=1e-3)
        assert shown[10] is None  # the run is over
    first, ios = outcome.found.runs
    assert ios.mean / first.mean == pytest.approx(first.run_us / ios.run_us, rel=1e-3)
    told = utilization.PUBLISHED_WARPS
    over = utilization.PUBLISHED_OVER["IOS-both"]
    assert told["IOS-both"] / told["sequential"] == pytest.approx(over, abs=0.01)
    busier = ios.mean / first.mean
    assert column(utilization.Utilization(), [outcome], "error") == [
        "-",
        f"{busier / over - 1:+.0%}",
    ]


@pytest.mark.slow
def test_a_schedule_takes_the_same_time_in_every_experiment(tmp_path):
    sampled = measured(sample.Sample(), tmp_path, bool)
    busy = measured(utilization.Utilization(), tmp_path, bool)
    for one, other in zip(sampled, busy, strict=True):
        us = {each.name: each.ms * 1e3 for each in one.found.schedules}
        for run in other.found.runs:
            assert run.run_us == pytest.approx(us[run.schedule])


def test_systems_are_those_of_the_paper_and_one_of_today():
    assert {name: system.published for name, system in SYSTEMS.items()} == {
        "V100": True,
        "K80": True,
        "H100": False,
    }
    assert SYSTEMS["K80"].gpu == GPU.by_name("k80")
    part = sample_part()
    for system in SYSTEMS.values():
        model = system.model(part)
        found = system.schedule(part, model, "IOS-both")
        assert model.price(part.graph, found.stages) == model.model.price(part.graph, found.stages)
        assert ("device-wide waits" in model.description) is system.published
        assert isinstance(model, FloorModel)
