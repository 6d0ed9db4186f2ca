"""Choosing between builds: what is kept is one of them, and runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tvm_ios.compile.built_model import build_model, build_prepared
from tvm_ios.compile.dialects.dialect import in_precision
from tvm_ios.core.image_layouts import BLOCKS, CHANNELS_LAST, ImageForm
from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.devices.traits import CPU
from tvm_ios.errors import ScheduleError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.profile import build_choice
from tvm_ios.profile.build_candidates import BuildCandidate, all_candidates, changes_for
from tvm_ios.profile.build_choice import choose_build
from tvm_ios.profile.decisions.known_forms import build_for_schedule
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.layouts.image_form import in_form
from tvm_ios.relay.prepare import prepare, with_low_precision
from tvm_ios.relay.transforms.bfloat16 import low_values
from tvm_ios.relay.transforms.channel_padding import pad_channels
from tvm_ios.relay.transforms.products.row_padding import pad_rows
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.support.time_budget import TimeBudget

TARGET = "llvm -mcpu=core-avx2 -opt-level=0"
SOON = CompareOptions(rounds=9, min_repeat_ms=0.1)


@pytest.fixture(scope="module")
def built(narrow):
    return build_model(*narrow, TARGET)


def output_of(compiled):
    data = np.random.default_rng(1).uniform(-1, 1, (1, 16, 12, 12)).astype("float32")
    with compiled.executor() as executor:
        executor.run(data=data)
        return executor.get_output(0).numpy().copy()


@pytest.mark.slow(1)
def test_the_fastest_build_is_kept_and_the_first_one_where_none_is_faster(built, clocked, tmp_path):
    call = MeasuringCall.here(lanes=1, database=tmp_path / "p.sqlite")
    builds = dict.fromkeys(("first", "second", "third"), built)
    for times_ns, kept in (((50, 40, 30), "third"), ((50, 40, 45), "second"), ((1, 1, 2), "first")):
        clocked(dict(zip(builds, times_ns, strict=True)))
        choice = choose_build(builds, call)
        assert choice.kept == kept
        assert [note.split(":")[0] for note in choice.notes] == ["second", "third"]
        assert choice.speedups["second"] == pytest.approx(times_ns[0] / times_ns[1])


@pytest.mark.parametrize(("long_flops", "lanes"), [(1e9, {1, 2}), (1, {2})])
def test_one_lane_takes_part_where_operators_are_short(
    built, tmp_path, monkeypatch, long_flops, lanes
):
    raced = []

    def race(models, **_options):
        raced.extend(model.plan.lanes for model in models.values())
        run_ns = tuple(map(float, range(1, 1 + len(models))))
        rounds = (CompareRound(run_ns=run_ns, ping_pong_ns=0.0, slow=False),) * 6
        return Comparison(names=tuple(models), rounds=rounds, confidence=0.95, notes=())

    monkeypatch.setattr(build_choice, "race", race)
    monkeypatch.setattr(build_choice, "LONG_FLOPS", long_flops)
    call = MeasuringCall.here(lanes=2, database=tmp_path / "p.sqlite")
    choose_build({"one": built, "other": built}, call)
    assert set(raced) == lanes


def test_rounds_decide_where_times_have_two_modes(built, tmp_path, monkeypatch):
    def race(models, **_options):
        pairs = [(95, 91)] * 8 + [(105, 101)] * 8 + [(90, 120)] * 4
        rounds = tuple(
            CompareRound(run_ns=tuple(map(float, pair)), ping_pong_ns=0.0, slow=False)
            for pair in pairs
        )
        found = Comparison(names=tuple(models), rounds=rounds, confidence=0.95, notes=())
        medians = [found.median_ns(name) for name in models]
        assert medians[0] < medians[1]
        return found

    monkeypatch.setattr(build_choice, "race", race)
    call = MeasuringCall.here(lanes=1, database=tmp_path / "p.sqlite")
    choice = choose_build({"one": built, "other": built}, call)
    assert choice.kept == "other"


def test_a_build_is_measured_against_the_faster_run_of_the_first_one(built, tmp_path, monkeypatch):
    """The first run of all is timed to the end, and the other one only until it has lost."""

    def race(models, **_options):
        early = [CompareRound(run_ns=(2.0, 2.0, 1.2, 1.0), ping_pong_ns=0.0, slow=False)] * 6
        late = [CompareRound(run_ns=(2.0, None, None, 1.0), ping_pong_ns=0.0, slow=False)] * 6
        return Comparison(names=tuple(models), rounds=(*early, *late), confidence=0.95, notes=())

    monkeypatch.setattr(build_choice, "race", race)
    monkeypatch.setattr(build_choice, "LONG_FLOPS", 1e9)
    call = MeasuringCall.here(lanes=2, database=tmp_path / "p.sqlite")
    choice = choose_build({"one": built, "other": built}, call)
    assert choice.kept == "other"
    assert choice.notes[0].startswith("other: 1.200 ")


@pytest.mark.parametrize(
    ("lanes", "greedy_ns", "kept"), [(2, 50, "other"), (2, 80, "one"), (1, 50, "one")]
)
def test_a_form_may_win_where_operators_run_side_by_side(
    built, tmp_path, monkeypatch, lanes, greedy_ns, kept
):
    def race(models, **_options):
        of = {"other, greedy, lanes: 2": greedy_ns, "one, sequential, lanes: 2": 70}
        run_ns = tuple(float(of.get(name, 90)) for name in models)
        rounds = (CompareRound(run_ns=run_ns, ping_pong_ns=0.0, slow=False),) * 6
        return Comparison(names=tuple(models), rounds=rounds, confidence=0.95, notes=())

    monkeypatch.setattr(build_choice, "race", race)
    monkeypatch.setattr(build_choice, "WIDE", 0.9)
    call = MeasuringCall.here(lanes=lanes, database=tmp_path / "p.sqlite")
    assert choose_build({"one": built, "other": built}, call).kept == kept


@pytest.mark.parametrize(
    ("others_ns", "operator_ns", "kept"),
    [
        ((96, 96, 96, 99, 101, 101), (600, 300), "other"),  # faster in most rounds, and by prices
        ((96, 96, 96, 99, 101, 101), (500, 500), "one"),
        ((96, 96, 96, 99, 101, 101), (), "one"),  # without a library nothing was priced
        ((99, 99, 99, 99, 101, 101), (600, 300), "one"),
        ((104, 104, 104, 99, 99, 101), (600, 300), "one"),
        ((103,) * 6, (600, 300), "one"),
        ((90,) * 6, (900, 900), "other"),
    ],
)
def test_prices_decide_with_a_race_that_is_not_decided(
    built, tmp_path, monkeypatch, others_ns, operator_ns, kept
):
    def race(models, **_options):
        rounds = tuple(
            CompareRound(run_ns=(100.0, float(ns)), ping_pong_ns=0.0, slow=False)
            for ns in others_ns
        )
        return Comparison(names=tuple(models), rounds=rounds, confidence=0.95, notes=())

    priced = cycle([(600, 400) if operator_ns else (), operator_ns])

    def without_search(built, *_):
        return [replace(sequential_schedule(built.graph), operator_ns=next(priced))]

    monkeypatch.setattr(build_choice, "race", race)
    monkeypatch.setattr(build_choice, "without_search", without_search)
    monkeypatch.setattr(build_choice, "compiled_for", lambda *_, **__: None)
    call = MeasuringCall.here(lanes=1, database=tmp_path / "p.sqlite")
    builds = {"one": built, "other": built}
    assert choose_build(builds, call).kept == ("other" if operator_ns == (900, 900) else "one")
    choice = choose_build(builds, call, prices_count=True)
    assert choice.kept == kept
    told = [note for note in choice.notes if "by prices of operators, too" in note]
    assert len(told) == (kept == "other" and operator_ns != (900, 900))


@pytest.mark.parametrize(("budget_s", "longest_s"), [(None, 20.0), (60.0, 15.0), (1.0, 5.0)])
def test_a_race_of_builds_may_last_as_long_as_the_budget_has_it(
    built, tmp_path, monkeypatch, budget_s, longest_s
):
    asked = []

    def race(models, *, options, **_):
        asked.append(options.longest_s)
        rounds = [CompareRound(run_ns=(1.0,) * len(models), ping_pong_ns=0.0, slow=False)] * 6
        return Comparison(names=tuple(models), rounds=tuple(rounds), confidence=0.95, notes=())

    monkeypatch.setattr(build_choice, "race", race)
    call = MeasuringCall.here(lanes=1, database=tmp_path / "p.sqlite")
    choose_build({"one": built, "other": built}, replace(call, budget=TimeBudget(budget_s)))
    assert asked == [pytest.approx(longest_s, rel=0.2)]


def test_builds_are_really_timed(built, tmp_path):
    call = MeasuringCall.here(lanes=2, database=tmp_path / "p.sqlite", compare=SOON)
    choice = choose_build({"one": built, "other": built}, call)
    assert choice.kept in ("one", "other")
    assert "times as fast as one, before a search" in choice.notes[0]


@pytest.mark.slow
def test_a_schedule_finds_the_build_it_was_made_for(narrow):
    mod, params = narrow
    plain = build_model(mod, params, TARGET)
    padded = build_model(pad_channels(mod, params, TARGET)[0], None, TARGET)
    form = ImageForm(layouts=(BLOCKS, CHANNELS_LAST, CHANNELS_LAST))
    turned = replace(build_model(in_form(mod, params, form, TARGET)[0], None, TARGET), form=form)
    expected = output_of(tvm_ios.compile_schedule(mod, params, TARGET, lanes=1))
    for built in (plain, padded, turned):
        schedule = replace(greedy_schedule(built.graph), form=built.form)
        schedule = InterOpSchedule.from_json(schedule.to_json())
        found = build_for_schedule(mod, params, TARGET, schedule)
        assert found.graph.fingerprint() == built.graph.fingerprint()
        assert found.form == built.form
        compiled = tvm_ios.compile_schedule(mod, params, TARGET, schedule=schedule, lanes=1)
        np.testing.assert_allclose(output_of(compiled), expected, rtol=1e-5, atol=1e-5)
    assert plain.graph.fingerprint() != padded.graph.fingerprint()


@pytest.mark.slow(2)
def test_a_schedule_finds_its_values_in_bfloat16(narrow):
    exact = prepare(*narrow, TARGET)
    low = low_values(exact.extraction).most()
    assert low.results
    assert low.weights
    some = replace(low, weights=low.weights[1:])
    expected = output_of(tvm_ios.compile_schedule(*narrow, TARGET, lanes=1))
    for each in (low, some):
        graph = build_prepared(with_low_precision(exact, each)).graph
        schedule = replace(sequential_schedule(graph), low=each)
        schedule = InterOpSchedule.from_json(schedule.to_json())
        compiled = tvm_ios.compile_schedule(*narrow, TARGET, schedule=schedule, lanes=1)
        assert compiled.schedule.low == each
        off = np.abs(output_of(compiled) - expected).max() / np.abs(expected).max()
        assert 1e-5 < off < 0.03
        again = tvm_ios.compile_schedule(compiled.module, None, TARGET, lanes=1)
        np.testing.assert_array_equal(output_of(again), output_of(compiled))


@pytest.mark.slow(1)
def test_values_that_cannot_be_bfloat16_are_those_of_another_model(narrow, built):
    exact = prepare(*narrow, TARGET)
    assert in_precision(exact, None) is exact
    (output,) = exact.extraction.outputs
    for odd in (
        LowPrecision(results=(output,), weights=()),
        LowPrecision(results=(), weights=(len(built.graph),)),
    ):
        assert in_precision(exact, odd) is None
        schedule = replace(greedy_schedule(built.graph), low=odd, graph_fingerprint="another")
        with pytest.raises(ScheduleError, match="does not fit graph"):
            tvm_ios.compile_schedule(*narrow, TARGET, schedule=schedule, lanes=1)


@pytest.mark.slow
@pytest.mark.parametrize("libraries", [(), (OnednnLibrary(),)], ids=["own kernels", "oneDNN"])
def test_every_form_finds_its_build_again(libraries):
    shapes = {"data": (1, 16, 8, 8), "w": (16, 3, 2, 2), "v": (12, 3, 3, 3)}
    data, weight, other = (relay.var(name, shape=shape) for name, shape in shapes.items())
    value = relay.nn.conv2d_transpose(
        data, weight, channels=3, kernel_size=(2, 2), strides=(2, 2), data_layout="NCHW"
    )
    value = relay.nn.conv2d(relay.nn.relu(value), other, channels=12, kernel_size=(3, 3))
    mod = tvm.IRModule.from_expr(relay.Function([data, weight, other], value))
    random = np.random.default_rng(1)
    params = {name: random.random(shapes[name], dtype="float32") for name in ("w", "v")}
    form = ImageForm(written=(0,), layouts=(CHANNELS_LAST, BLOCKS))
    changes = changes_for(CPU, libraries=libraries, choose_form=lambda *_: form)
    as_it_is = BuildCandidate(mod=mod, params=params)
    forms = list(all_candidates(as_it_is, changes, resolve_target(TARGET)))
    assert len(forms) > 1
    for each in forms:
        schedule = greedy_schedule(build_model(each.mod, each.params, TARGET).graph)
        found = build_for_schedule(mod, params, TARGET, replace(schedule, form=each.form))
        assert found.graph.fingerprint() == schedule.graph_fingerprint, each.changes


@pytest.mark.slow
def test_so_does_one_that_was_made_for_padded_rows():
    data, weight = relay.var("data", shape=(1, 13, 20)), relay.var("w", shape=(32, 20))
    product = relay.nn.dense(relay.reshape(data, (13, 20)), weight)
    mod = tvm.IRModule.from_expr(relay.Function([data, weight], product))
    params = {"w": np.random.default_rng(1).random((32, 20), dtype="float32")}
    padded = build_model(pad_rows(mod, params)[0], None, TARGET)
    schedule = greedy_schedule(padded.graph)
    assert schedule.graph_fingerprint != build_model(mod, params, TARGET).graph.fingerprint()
    compiled = tvm_ios.compile_schedule(mod, params, TARGET, schedule=schedule, lanes=1)
    image = np.random.default_rng(2).random((1, 13, 20), dtype="float32")
    with compiled.executor() as module:
        module.run(data=image)
        found = module.get_output(0).numpy()
    np.testing.assert_allclose(found, image[0] @ params["w"].T, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_a_schedule_of_another_graph_is_refused(narrow, branching):
    built = build_model(*branching, TARGET)
    with pytest.raises(ScheduleError, match="fingerprint"):
        tvm_ios.compile_schedule(*narrow, TARGET, schedule=greedy_schedule(built.graph))


@pytest.mark.slow
def test_what_tune_finds_can_be_compiled_again(narrow, tmp_path: Path):
    mod, params = narrow
    tuned = tvm_ios.tune(
        mod,
        params,
        TARGET,
        lanes=1,
        database=tmp_path / "p.sqlite",
        options=tvm_ios.TuneOptions(build=tvm_ios.BuildOptions(libraries=()), compare=SOON),
    )
    again = tvm_ios.compile_schedule(mod, params, TARGET, schedule=tuned.schedule, lanes=1)
    np.testing.assert_array_equal(output_of(again), output_of(tuned))
    assert any("padded channels" in note for note in tuned.report().notes)
