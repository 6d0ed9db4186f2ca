"""Forms of a model built and raced: the faster one is kept, and remembered."""

from __future__ import annotations

import sqlite3
from contextlib import closing, nullcontext
from dataclasses import replace

import numpy as np
import pytest

import tvm_ios
from tests.stock import stock_executor
from tvm_ios.compile.built_model import build_prepared
from tvm_ios.core.image_layouts import BLOCKS, CHANNELS_LAST, ImageForm
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.devices.traits import CPU
from tvm_ios.errors import ModelError, OptionError
from tvm_ios.measure.compare import CompareOptions, RaceTooLongError
from tvm_ios.profile import build_choice, fastest_build
from tvm_ios.profile.build_candidates import BuildCandidate, changes_for
from tvm_ios.profile.fastest_build import build_fastest
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.relay.inputs import check_module, resolve_target
from tvm_ios.relay.prepare import heavy_operators
from tvm_ios.relay.transforms.channel_padding import pad_channels
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary

TARGET = "llvm -mcpu=core-avx2 -opt-level=0"
CHANGES = changes_for(CPU)
TWO_PADDED = ("the output channels of 2 operators were padded to whole vectors",)
LAID_OUT = "3 convolutions were laid out as NCHW; inputs and outputs keep their layout"
AS_IT_IS_NS = {"layouts as they are": 100, "channels as they are": 50, "padded channels": 60}
BY_TVM = tvm_ios.BuildOptions(libraries=())
SOON = CompareOptions(rounds=9, min_repeat_ms=0.1)


@pytest.fixture
def database(tmp_path):
    return ProfileDatabase(tmp_path / "prices.sqlite")


def output_of(executor):
    data = np.random.default_rng(1).uniform(-1, 1, (1, 12, 12, 16)).astype("float32")
    executor.run(data=data)
    return executor.get_output(0).numpy().copy()


@pytest.mark.slow(1)
def test_workers_are_started_for_a_model_that_is_new(narrow, clocked, database, monkeypatch):
    """Not again for what an earlier call built, and again where its note is damaged."""
    asked = []
    monkeypatch.setattr(fastest_build, "start_shared_workers", asked.append)
    clocked({"channels as they are": 100, "padded channels": 100})

    def build():
        call = MeasuringCall.here(lanes=1, database=database)
        build_fastest(*narrow, TARGET, call, changes=CHANGES)
        return len(asked)

    assert build() == 1
    assert asked == [heavy_operators(narrow[0])]
    assert build() == 1
    with closing(sqlite3.connect(database.path)) as connection, connection:
        connection.execute("UPDATE facts SET value = 'damaged'")
    assert build() == 2


def test_a_candidate_is_checked_once(narrow, monkeypatch):
    checked = []

    def check(mod):
        checked.append(mod)
        return check_module(mod)

    monkeypatch.setattr("tvm_ios.profile.build_candidates.check_module", check)
    candidate = BuildCandidate(mod=narrow[0], params=narrow[1])
    for change in CHANGES:
        change.of(candidate, resolve_target(TARGET))
    assert checked == [narrow[0]]
    assert check_module(candidate.checked) is candidate.checked.typed


@pytest.mark.slow(2)
@pytest.mark.parametrize("padded_ns", [90, 100, pytest.param(110, marks=pytest.mark.full)])
def test_padded_channels_are_kept_where_they_are_faster_and_raced_once(
    narrow, clocked, tmp_path, database, padded_ns
):
    clocked({"channels as they are": 100, "padded channels": padded_ns})
    known = {"lanes": 1, "database": database}
    call = MeasuringCall.here(**known)
    chosen = build_fastest(*narrow, TARGET, call, changes=CHANGES)
    assert {"build", "build padded", "check padded"} <= set(call.clock.phase_s)
    assert chosen.notes[0].startswith(f"padded channels: {100 / padded_ns:.3f}")
    blocks = {
        int(call.checked_type.shape[1]) * int(call.checked_type.shape[-1])
        for call in chosen.built.extraction.calls
        if len(call.checked_type.shape) == 5
    }
    if padded_ns < 100:
        assert (chosen.candidate.changes, chosen.candidate.params) == (TWO_PADDED, None)
        assert chosen.notes[1:] == TWO_PADDED
        assert 12 not in blocks
    else:
        assert chosen.candidate == BuildCandidate(mod=narrow[0], params=narrow[1])
        assert 12 in blocks
    call = MeasuringCall.here(**known)
    again = build_fastest(*narrow, TARGET, call, changes=CHANGES)
    assert set(call.clock.phase_s) == {"build"}
    assert again.candidate.changes == chosen.candidate.changes
    assert again.built.graph.fingerprint() == chosen.built.graph.fingerprint()
    assert again.notes[0].startswith(f"{chosen.notes[0]} (raced on 2")
    if padded_ns == 90:
        for changed in ({"lanes": 2}, {"database": tmp_path / "another.sqlite"}):
            call = MeasuringCall.here(**known | changed)
            build_fastest(*narrow, TARGET, call, changes=CHANGES)
            assert "check padded" in call.clock.phase_s


@pytest.mark.slow
def test_without_narrow_convolutions_nothing_is_timed(narrow, database):
    mod, params = narrow
    call = MeasuringCall.here(lanes=1, database=database)
    changes = changes_for(CPU, pad_channels=False)
    chosen = build_fastest(mod, params, TARGET, call, changes=changes)
    assert chosen.candidate == BuildCandidate(mod=mod, params=params)
    assert chosen.notes == ()
    padded_mod, _ = pad_channels(mod, params, TARGET)
    chosen = build_fastest(padded_mod, None, TARGET, call, changes=CHANGES)
    assert chosen.candidate == BuildCandidate(mod=padded_mod, params=None)
    assert "check padded" not in call.clock.phase_s


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("nchw_ns", "padded_ns", "changes"),
    [
        pytest.param(50, 60, (LAID_OUT,), marks=pytest.mark.slow),
        (50, 40, (LAID_OUT, *TWO_PADDED)),
        pytest.param(120, 40, (), marks=pytest.mark.slow),
    ],
)
def test_layouts_are_tried_first_and_padding_on_what_was_kept(
    in_nhwc, clocked, database, nchw_ns, padded_ns, changes
):
    clocked(AS_IT_IS_NS | {"NCHW": nchw_ns, "padded channels": padded_ns})
    call = MeasuringCall.here(lanes=1, database=database)
    first = build_fastest(*in_nhwc, TARGET, call, changes=CHANGES)
    phases = {"build", "build NCHW", "check NCHW"}
    assert set(call.clock.phase_s) == phases | (
        {"build padded", "check padded"} if changes else set()
    )
    assert first.candidate.changes == changes
    assert first.notes[0].startswith(f"NCHW: {100 / nchw_ns:.3f}")
    assert first.notes[len(first.notes) - len(changes) :] == changes
    call = MeasuringCall.here(lanes=1, database=database)
    again = build_fastest(*in_nhwc, TARGET, call, changes=CHANGES)
    assert set(call.clock.phase_s) == {"build"}  # nothing but the winner
    assert again.candidate.changes == changes
    assert again.built.graph.fingerprint() == first.built.graph.fingerprint()


def test_what_cannot_be_laid_out_stays_with_a_note(in_nhwc, database):
    def refuse(*_):
        raise OptionError("TVM cannot")

    layout = replace(CHANGES[0], rewrite=refuse)
    call = MeasuringCall.here(lanes=1, database=database)
    chosen = build_fastest(*in_nhwc, TARGET, call, changes=(layout,))
    assert chosen.candidate.params is in_nhwc[1]
    assert chosen.notes == ("layouts as they are, since NCHW cannot be had: TVM cannot",)


def test_a_form_that_does_not_compile_is_left_out(in_nhwc, database, monkeypatch):
    def build(prepared, *, like=None, **options):
        if like is not None:
            raise ModelError("no kernel")
        return build_prepared(prepared, **options)

    monkeypatch.setattr(fastest_build, "build_prepared", build)
    call = MeasuringCall.here(lanes=1, database=database)
    chosen = build_fastest(*in_nhwc, TARGET, call, changes=CHANGES)
    assert chosen.candidate.changes == ()
    assert chosen.notes == ("layouts as they are, since NCHW cannot be had: no kernel",)


def test_a_short_budget_leaves_other_layouts_out(in_nhwc, database):
    call = MeasuringCall.here(lanes=1, database=database, time_budget=1e-3)
    chosen = build_fastest(*in_nhwc, TARGET, call, changes=CHANGES)
    assert chosen.candidate.changes == ()
    assert call.budget.notes[0] == "for time_budget=0.001, a build with NCHW was not tried"


@pytest.mark.slow
def test_a_race_that_the_budget_does_not_have_is_left_out(in_nhwc, database, monkeypatch):
    def race(models, *, budget, **_):
        raise RaceTooLongError(60.0, budget.spare_s)

    monkeypatch.setattr(build_choice, "race", race)
    call = MeasuringCall.here(lanes=1, database=database, time_budget=50.0)
    chosen = build_fastest(*in_nhwc, TARGET, call, changes=CHANGES)
    assert chosen.candidate.changes == ()
    note, *_ = call.budget.notes
    assert "a build with NCHW was not raced: the least rounds of the race take 60 s, and 4" in note


@pytest.mark.slow
@pytest.mark.parametrize("padded_ns", [40, pytest.param(60, marks=pytest.mark.full)])
def test_a_model_in_nhwc_is_tuned_in_nchw(in_nhwc, clocked, tmp_path, reference_build, padded_ns):
    mod, params = in_nhwc
    clocked(AS_IT_IS_NS | {"NCHW": 50, "padded channels": padded_ns})
    tuned = tvm_ios.tune(
        mod,
        params,
        TARGET,
        lanes=2,
        database=tmp_path / "p.sqlite",
        options=tvm_ios.TuneOptions(build=BY_TVM, compare=SOON),
    )
    assert LAID_OUT in tuned.report().notes
    calls = tuned.kernels.staged.extraction.calls
    assert sum(len(call.checked_type.shape) == 5 for call in calls) > 3  # blocked, as NCHW is
    tuned.export_library(tmp_path / "nhwc.so")
    again = tvm_ios.compile_schedule(mod, params, TARGET, schedule=tuned.schedule, lanes=2)
    stock = stock_executor(reference_build(mod, params, TARGET))
    expected = output_of(stock)
    assert expected.shape == (1, 12, 12, 16)
    with (
        tvm_ios.load(tmp_path / "nhwc.so") as loaded,
        tuned.executor() as executor,
        again.executor() as other,
    ):
        for each in (executor, other, loaded):
            np.testing.assert_allclose(output_of(each), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_a_layout_that_is_asked_for_is_no_question(in_nhwc, tmp_path, layout):
    conversion = tvm_ios.Conversion(desired_layout=layout)
    report = tvm_ios.tune(
        *in_nhwc,
        TARGET,
        lanes=1,
        database=tmp_path / "p.sqlite",
        options=tvm_ios.TuneOptions(build=BY_TVM, compare=SOON, conversion=conversion),
    ).report()
    assert not {"check NCHW", "check padded"} & report.phase_s.keys()
    assert not any("before a search" in note for note in report.notes)


@pytest.mark.slow
def test_a_change_that_prices_chose_is_kept_without_a_race(narrow, database, monkeypatch):
    monkeypatch.setattr(fastest_build, "choose_build", None)
    form = ImageForm(layouts=(BLOCKS, CHANNELS_LAST, BLOCKS))
    changes = changes_for(CPU, libraries=(OnednnLibrary(),), choose_form=lambda *_: form)[:1]
    call = MeasuringCall.here(lanes=1, database=database)
    chosen = build_fastest(*narrow, TARGET, call, changes=changes)
    assert chosen.built.form == form
    assert list(call.clock.phase_s) == ["price layouts", "build"]
    (note,) = chosen.notes
    assert note.startswith("1 convolutions have channels last and 2 blocks of channels, by prices")


@pytest.mark.slow
def test_records_race_it_against_the_model_as_it_is(narrow, database, clocked):
    clocked({"layouts as they are": 100, "layouts by prices": 50})
    form = ImageForm(layouts=(CHANNELS_LAST,) * 3)
    changes = changes_for(CPU, libraries=(OnednnLibrary(),), choose_form=lambda *_: form)[:1]
    call = MeasuringCall.here(lanes=1, database=database)
    chosen = build_fastest(*narrow, TARGET, call, changes=changes, records=nullcontext)
    assert chosen.candidate.form == form
    assert chosen.notes[0].startswith("layouts by prices: 2.000 ")
