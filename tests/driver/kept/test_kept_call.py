"""The second call of ``tune`` gives what the first one gave, from a file."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest
import tvm

import tvm_ios
from tests.driver.conftest import TARGET
from tests.driver.test_tune import QUICK
from tvm_ios import DatabaseOptions
from tvm_ios.compile.file_kernels import FileKernels
from tvm_ios.driver.kept.kept_call import KeptCall
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.errors import OptionError


def tune(net, **given):
    return tvm_ios.tune(net.mod, net.params, TARGET, **({"lanes": 1, "options": QUICK} | given))


def is_kept(model):
    return isinstance(model.kernels, FileKernels)


@pytest.mark.slow
def test_a_second_call_gives_the_same_model(net, tmp_path, caplog):
    first = tune(net)
    with caplog.at_level(logging.INFO, "tvm_ios"):
        second = tune(net)
    assert (is_kept(first), is_kept(second)) == (False, True)
    assert "kept from an equal call of" in caplog.text
    assert second.kept_as == first.kept_as != ""
    assert (second.graph, second.schedule, second.rest) == (first.graph, first.schedule, first.rest)
    assert second.as_text() == first.as_text()
    assert second.report().notes[1:] == first.report().notes
    assert replace(second.report(), notes=first.report().notes) == first.report()
    assert second.story().graph == first.story().graph
    assert tvm.ir.structural_equal(second.module, first.module)
    paths = [tmp_path / "first.so", tmp_path / "second.so"]
    for model, path in zip((first, second), paths, strict=True):
        model.export_library(path)
    with first.executor() as one, second.executor() as other, tvm_ios.load(paths[1]) as loaded:
        expected = net.run(one)
        np.testing.assert_array_equal(net.run(other), expected)
        np.testing.assert_array_equal(net.run(loaded), expected)
    assert second.plan.arena_bytes == first.plan.arena_bytes


@pytest.mark.slow
def test_what_is_kept_outlives_its_file(net, kept_folder):
    tune(net)
    model = tune(net)
    for path in kept_folder.iterdir():
        path.unlink()
    with model.executor() as executor:
        assert net.run(executor).shape == net.expected.shape
    assert not is_kept(tune(net))


@pytest.mark.slow
def test_other_calls_are_tuned(net, kept_folder):
    tune(net)
    assert is_kept(tune(net))
    fresh = replace(QUICK, database=DatabaseOptions(fresh=True))
    assert not is_kept(tune(net, options=fresh))
    with tvm.transform.PassContext(opt_level=3):
        assert not is_kept(tune(net))
    with tvm.autotvm.apply_history_best(None):
        assert not is_kept(tune(net))
    name, value = next(iter(net.params.items()))
    other = replace(net, params=net.params | {name: tvm.nd.array(value.numpy() + 1)})
    assert not is_kept(tune(other))
    with pytest.raises(OptionError, match="time_budget is 'soon'"):
        tune(net, time_budget="soon")
    with pytest.raises(OptionError, match="lanes is 0"):
        tune(net, lanes=0)
    assert is_kept(tune(net))


@pytest.mark.parametrize("given", [{"mod": 5}, {"params": 5}, {"tuning_records": 5}])
def test_what_nobody_expects_has_no_key(net, given):
    call = TuneCall(**({"mod": net.mod, "params": net.params} | given))
    assert KeptCall.of(call).key == ""
