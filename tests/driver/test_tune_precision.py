"""``tune`` in bfloat16: kept where it is faster and close enough, told in every report."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tvm_ios
from tests.bfloat16 import needs_bfloat16
from tests.driver.test_tune import COMPARE, MEASURE
from tvm_ios.cli.main import main
from tvm_ios.core.precision import precision_outcome
from tvm_ios.core.precision.precision_outcome import PrecisionOutcome
from tvm_ios.driver.tune import TuneCall, tune_race
from tvm_ios.errors import HostError, OptionError
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.profile import build_choice
from tvm_ios.runtime.libraries.onednn import library
from tvm_ios.support.time_budget import TimeBudget

OPTIONS = tvm_ios.TuneOptions.of(
    "quick", measure=MEASURE, compare=COMPARE, build={"pad_channels": False}
)
LOW = {"precision": "bfloat16", "options": OPTIONS, "lanes": 1}


@pytest.fixture
def net(branching_net):
    """A network with several operators, some of which gain by bfloat16 on a busy machine, too."""
    return branching_net


@pytest.fixture(autouse=True)
def races(monkeypatch):
    """Builds in bfloat16 are twice as fast as others, or as fast as this says."""
    speedup = {"bfloat16": 2.0}

    def race(models, **_options):
        times = tuple(2e6 / speedup["bfloat16"] if "bfloat16" in name else 2e6 for name in models)
        one = CompareRound(run_ns=times, ping_pong_ns=0.0, slow=False)
        return Comparison(names=tuple(models), rounds=(one,) * 9, confidence=0.95, notes=())

    monkeypatch.setattr(build_choice, "race", race)
    return speedup


def error_of(net, model):
    with model.executor() as executor:
        found = net.run(executor)
    return float(np.abs(found - net.expected).max() / np.abs(net.expected).max())


@needs_bfloat16
@pytest.mark.slow(5)
def test_what_is_kept_is_told_exported_and_found_again(net, tmp_path, capsys):
    model = net.tune(database=tmp_path / "p.sqlite", inputs={"data": net.image}, **LOW)
    outcome = model.report().story.precision
    assert outcome is not None
    assert outcome.is_low
    assert outcome.inputs_given
    assert outcome.speedup == pytest.approx(2.0)
    assert outcome.operators == len(model.schedule.low.operators) > 0
    assert outcome.errors == (pytest.approx(error_of(net, model), rel=0.05),)
    assert 1e-5 < outcome.worst < 0.03
    line = outcome.as_text()
    assert line.startswith("bfloat16: 2.00 times as fast as float32, outputs off by at most 0.00")
    assert line in model.report().summary().splitlines()
    assert len(model.report().summary().splitlines()) <= 25
    assert {line, *outcome.details()} <= {*model.report().as_text().splitlines()}
    assert line in model.report().to_html()
    assert json.loads(model.report().to_json())["story"]["precision"]["dtype"] == "bfloat16"

    path = tmp_path / "net.so"
    model.export_library(path)
    assert main(["show", str(path)]) == 0
    assert line in capsys.readouterr().out.splitlines()
    again = net.compile(schedule=model.schedule, lanes=1)
    with model.executor() as one, again.executor() as other, tvm_ios.load(path) as loaded:
        np.testing.assert_array_equal(net.run(other), net.run(one))
        np.testing.assert_array_equal(net.run(loaded), net.run(one))
    exact = net.tune(database=tmp_path / "p.sqlite", options=OPTIONS, lanes=1, decisions=path)
    assert exact.schedule.low is None
    assert "does not race: its values are bfloat16" in exact.report().given[0]
    net.assert_close(exact)


@needs_bfloat16
@pytest.mark.slow(3)
def test_float32_is_kept_with_its_reason(net, races, tmp_path):
    given = {"database": tmp_path / "p.sqlite"} | LOW
    strict = net.tune(max_relative_error=1e-7, **given)
    told = strict.report().story.precision
    assert not told.is_low
    assert told.reason == "its error is above the bound of 1e-07"
    assert "(checked on made-up inputs)" in told.as_text()
    races["bfloat16"] = 0.5
    slow = net.tune(**given)
    told = slow.report().story.precision
    assert told.reason == "it is 0.50 times as fast, no gain beyond the noise"
    for model in (strict, slow):
        assert model.schedule.low is None
        net.assert_close(model)


@needs_bfloat16
@pytest.mark.slow(3)
def test_a_result_in_float32_promises_what_bfloat16_is_worth(net, tmp_path, monkeypatch):
    monkeypatch.setattr(precision_outcome, "WORTH_TELLING", 1.0)  # however fast products are here
    model = net.tune(database=tmp_path / "p.sqlite", options=OPTIONS, lanes=1)
    told = model.report().story.precision
    assert 1 < told.promised < 2
    assert told.as_text() in model.report().summary().splitlines()
    assert "by a prediction" in told.as_text()
    off = OPTIONS.changed(build={"exact": True})
    exact = net.tune(database=tmp_path / "p.sqlite", options=off, lanes=1)
    assert exact.report().story.precision is None


@pytest.mark.slow(3)
def test_nothing_is_promised_without_the_arithmetic(net, tmp_path, monkeypatch):
    monkeypatch.setattr(library.OnednnFacts, "has_bfloat16", False)
    model = net.tune(database=tmp_path / "p.sqlite", options=OPTIONS, lanes=1)
    assert model.report().story.precision is None
    with pytest.raises(HostError, match="precision is 'bfloat16'"):
        net.tune(database=tmp_path / "p.sqlite", **LOW)


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"precision": "bf16"}, "precision is 'bf16'; give 'float32' or 'bfloat16'"),
        ({"max_relative_error": 0.1}, "everything is computed in float32"),
        ({"inputs": {"data": 1}}, "only errors of bfloat16 are checked on them; give precision"),
        ({"precision": "bfloat16", "inputs": {}}, "input 'data' is missing; the model takes data"),
        ({"precision": "bfloat16", "inputs": 7}, "inputs is 7; give arrays by name"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_any_work(net, given, message):
    with pytest.raises(OptionError, match=message):
        net.tune(**given)


def test_a_gpu_is_refused_whether_there_is_one_or_not(net):
    with pytest.raises(OptionError, match="but the target is 'cuda"):
        tvm_ios.tune(net.mod, net.params, "cuda -arch=sm_90", precision="bfloat16")


@needs_bfloat16
@pytest.mark.slow(3)
def test_a_budget_without_time_for_it_keeps_float32(net, tmp_path):
    raced = tune_race(
        TuneCall(
            mod=net.mod,
            params=net.params,
            lanes=1,
            database=tmp_path / "p.sqlite",
            time_budget=TimeBudget(1e-3),
            options=OPTIONS.changed(precision={"dtype": "bfloat16"}),
        )
    )
    told = raced.kept.report().story.precision
    assert told == PrecisionOutcome(
        dtype="float32", reason="the time budget had no time for bfloat16"
    )
    assert "a build in bfloat16 was not tried" in " ".join(raced.kept.report().notes)
    assert raced.kept.schedule.low is None
    net.assert_close(raced.kept)
