"""A begun call has a model at once; another process keeps the finished one."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from tests.driver.conftest import TARGET
from tests.driver.test_tune import QUICK
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.driver.later import begun_call
from tvm_ios.driver.later.begun_call import LaterModel, begin_tune

pytestmark = pytest.mark.usefixtures("kept_at_once")


@pytest.fixture
def call(net):
    return TuneCall(mod=net.mod, params=net.params, target=TARGET, lanes=1, options=QUICK)


@pytest.mark.slow
def test_the_finished_model_follows_the_first_and_serves_equal_calls(call, net):
    first, later = begin_tune(call)
    assert "before it ended" in first.interim
    with first.executor() as executor:
        expected = net.run(executor)
    finished = later.model()
    assert later.has_ended
    assert finished.was_loaded
    assert finished.report().kept
    with finished.executor() as executor:
        np.testing.assert_allclose(net.run(executor), expected, rtol=1e-4, atol=1e-5)
    again, none = begin_tune(call)
    assert again.kept_as == finished.kept_as != ""
    assert none is None


@pytest.mark.slow
def test_a_process_that_fails_is_told_and_one_that_is_not_wanted_ends(call, caplog, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(begun_call, "write_job", lambda call, file: file.write(b"no pickle"))
        _, later = begin_tune(call)
    assert later.model() is None
    assert "the first model of a call stays: " in caplog.text
    assert "UnpicklingError" in caplog.text
    _, later = begin_tune(call)
    process = later._process
    later.end()
    assert later.has_ended
    assert process.returncode < 0
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


@pytest.mark.slow
def test_where_results_are_not_kept_a_call_is_finished_at_once(call, monkeypatch):
    monkeypatch.setenv("TVM_IOS_KEPT_MIB", "0")
    model, later = begin_tune(replace(call))
    assert later is None
    assert model.report().kept


@pytest.mark.slow
def test_no_process_outlives_the_object(call):
    _, later = begin_tune(call)
    assert isinstance(later, LaterModel)
    process = later._process
    del later
    assert process.returncode is not None
