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
from tests.relay_modules import quantised_images
from tvm_ios import DatabaseOptions
from tvm_ios.driver.kept.kept_call import KeptCall
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.errors import OptionError


def tune(net, **given):
    return tvm_ios.tune(net.mod, net.params, TARGET, **({"lanes": 1, "options": QUICK} | given))


@pytest.mark.slow
@pytest.mark.parametrize("quantised", [False, True])
def test_a_second_call_gives_the_same_model(net, make_net, tmp_path, caplog, quantised):
    net = make_net(quantised_images(), {}) if quantised else net
    first = tune(net)
    with caplog.at_level(logging.INFO, "tvm_ios"):
        second = tune(net)
    assert (first.was_loaded, second.was_loaded) == (False, True)
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
    assert not tune(net).was_loaded


@pytest.mark.slow
def test_other_calls_are_tuned(net, kept_folder):
    tune(net)
    assert tune(net).was_loaded
    fresh = replace(QUICK, database=DatabaseOptions(fresh=True))
    assert not tune(net, options=fresh).was_loaded
    with tvm.transform.PassContext(opt_level=3):
        assert not tune(net).was_loaded
    with tvm.autotvm.apply_history_best(None):
        assert not tune(net).was_loaded
    name, value = next(iter(net.params.items()))
    other = replace(net, params=net.params | {name: tvm.nd.array(value.numpy() + 1)})
    assert not tune(other).was_loaded
    with pytest.raises(OptionError, match="time_budget is 'soon'"):
        tune(net, time_budget="soon")
    with pytest.raises(OptionError, match="lanes is 0"):
        tune(net, lanes=0)
    assert tune(net).was_loaded


@pytest.mark.parametrize("given", [{"mod": 5}, {"params": 5}, {"tuning_records": 5}])
def test_what_nobody_expects_has_no_key(net, given):
    call = TuneCall(**({"mod": net.mod, "params": net.params} | given))
    assert KeptCall.of(call).key == ""


@pytest.mark.slow
def test_a_chain_tells_no_phases_of_an_earlier_call(net):
    phases = []
    for _ in range(2):
        with tvm_ios.SimpleTVM(TARGET, lanes=1, options=QUICK) as chain:
            chain.from_model((net.mod, net.params)).build()
            phases.append(chain.context.mean_phase_s)
            assert chain.run(net.image)[0].shape == net.expected.shape
            assert "llvm" in chain.report().target
    assert "search" in phases[0]
    assert phases[1] == {}
