"""First models of a call, made of a real small build: told, timed, and loaded from their files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tvm_ios
from tests.pricing import LANES
from tvm_ios.errors import OptionError
from tvm_ios.profile.in_time.early_answers import EarlyAnswers
from tvm_ios.profile.in_time.first_answer import FASTER_FORM, FIRST, answer_with
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.runtime.artifact.footer import read_story
from tvm_ios.support.progress import PhaseClock
from tvm_ios.support.time_budget import TimeBudget


@pytest.fixture
def steps():
    return []


@pytest.fixture
def call(steps):
    call = MeasuringCall.here(lanes=LANES)
    return replace(call, clock=PhaseClock(steps.append), answers=EarlyAnswers(told=True))


def models(steps):
    return [(step.detail, step.model) for step in steps if step.model is not None]


def test_where_nobody_wants_answers_none_is_made(branching_built):
    call = MeasuringCall.here(lanes=1)
    answer_with(branching_built, call)
    assert call.answers.first is None
    assert call.clock.phase_s == {}


@pytest.mark.slow(1)
def test_the_first_answer_is_told_and_runs_from_its_file(branching_built, call, steps, tmp_path):
    answer_with(branching_built, call)
    ((what, model),) = models(steps)
    assert what == FIRST
    assert all(len(stage.operators) == 1 for stage in model.schedule.stages)
    assert (call.answers.first.run_ns, call.budget.notes) == (0, ())
    path = tmp_path / "first.so"
    model.export_library(path)
    assert "not measured: an answer of tune before it ended" in read_story(path).report
    with pytest.raises(OptionError, match="what tune returns has a report"):
        model.report()
    data = np.random.default_rng(0).standard_normal((1, 16, 8, 8)).astype("float32")
    with model.executor() as here, tvm_ios.load(path) as loaded:
        here.run(data=data)
        loaded.run(data=data)
        np.testing.assert_array_equal(here.get_output(0).numpy(), loaded.get_output(0).numpy())


@pytest.mark.slow(1)
def test_an_equal_model_is_told_once(branching_built, call, steps):
    answer_with(branching_built, call)
    answer_with(branching_built, call)
    assert len(models(steps)) == 1
    other = replace(
        branching_built, kernels=type(branching_built.kernels)(branching_built.kernels.staged)
    )
    answer_with(other, call)
    assert [what for what, _ in models(steps)] == [FIRST, FASTER_FORM]
    assert call.answers.first.model.kernels is branching_built.kernels


@pytest.mark.slow(1)
def test_within_a_budget_it_is_run_and_the_end_is_set_aside(branching_built):
    call = replace(
        MeasuringCall.here(lanes=1), budget=TimeBudget(100), answers=EarlyAnswers(needed=True)
    )
    answer_with(branching_built, call)
    assert call.answers.first.run_ns > 0
    assert call.budget.spare_s < call.budget.left_s
    (note,) = call.budget.notes
    assert note.startswith("the least this call can take here is ")
