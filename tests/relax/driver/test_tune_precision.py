"""``tune`` of Relax models in bfloat16: kept where it is faster and close enough."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tvm_ios
from tests.bfloat16 import needs_bfloat16
from tests.relax.driver.test_tune import OPTIONS, ran, two_convolutions
from tvm_ios.core.precision.low_precision import Precision
from tvm_ios.errors import HostError, OptionError
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.profile import build_choice
from tvm_ios.runtime.libraries.onednn import library


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


def tuned(mod, tmp_path, **given):
    options = replace(OPTIONS, precision=Precision(dtype="bfloat16"))
    return tvm_ios.tune(mod, None, options=options, lanes=1, database=tmp_path / "db", **given)


@needs_bfloat16
@pytest.mark.slow(5)
def test_what_is_kept_is_told_exported_and_found_again(tmp_path):
    mod, value, answer = two_convolutions()
    model = tuned(mod, tmp_path, inputs={"x": value})
    outcome = model.report().story.precision
    assert outcome.is_low
    assert outcome.inputs_given
    assert outcome.operators == len(model.schedule.low.operators) > 0
    assert outcome.as_text() in model.report().summary().splitlines()
    found = ran(model, value)
    off = np.abs(found - answer).max() / np.abs(answer).max()
    assert 1e-5 < off < 0.03
    assert outcome.errors == (pytest.approx(off, rel=0.05),)
    model.export_library(tmp_path / "net.so")
    again = tvm_ios.compile_schedule(mod, None, schedule=model.schedule, lanes=1)
    assert again.schedule.low == model.schedule.low
    with tvm_ios.load(tmp_path / "net.so") as executor:
        executor.run(x=value)
        np.testing.assert_array_equal(executor.get_output(0).numpy(), found)
    np.testing.assert_array_equal(ran(again, value), found)


@needs_bfloat16
@pytest.mark.slow(5)
def test_float32_is_kept_with_its_reason(races, tmp_path):
    mod, value, answer = two_convolutions()
    strict = tuned(mod, tmp_path, max_relative_error=1e-7)
    told = strict.report().story.precision
    assert told.reason == "its error is above the bound of 1e-07"
    races["bfloat16"] = 0.5
    slow = tuned(mod, tmp_path)
    told = slow.report().story.precision
    assert told.reason == "it is 0.50 times as fast, no gain beyond the noise"
    for model in (strict, slow):
        assert model.schedule.low is None
        np.testing.assert_allclose(ran(model, value), answer, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "input 'x' is missing; the model takes x"),
        ({"x": np.zeros((1, 2), "float32")}, r"input 'x' has the shape \[1, 2\]"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(given, message, tmp_path):
    mod, *_ = two_convolutions()
    with pytest.raises(OptionError, match=message):
        tuned(mod, tmp_path, inputs=given)
    with pytest.raises(OptionError, match="only errors of bfloat16 are checked on them"):
        tvm_ios.tune(mod, None, inputs=given)


def test_processors_without_the_arithmetic_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(library.OnednnFacts, "has_bfloat16", False)
    mod, *_ = two_convolutions()
    with pytest.raises(HostError, match="precision is 'bfloat16'"):
        tuned(mod, tmp_path)
