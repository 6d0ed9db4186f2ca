"""The second call of ``tune`` gives what the first one gave, from a file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
import tvm_ffi

import tvm_ios
from tests.relax.driver.test_tune import OWN_KERNELS, ran
from tests.relax.networks import TARGET, Network
from tvm_ios.driver.build_options import DatabaseOptions
from tvm_ios.driver.kept.store import KeptResults
from tvm_ios.driver.races.beside_stock import tune_beside_stock
from tvm_ios.relax.model_digest import valued_model_digest


@pytest.fixture(autouse=True)
def kept_folder(fresh_cache, monkeypatch):
    """The folder of kept results, empty."""
    monkeypatch.delenv("TVM_IOS_KEPT_MIB")
    return KeptResults().folder


def network(channels=4, extent=6, relu=True, more=0.0, name="x", attribute=None):
    """A convolution with bias; its input is named, and its weights are of a seed and moved."""
    net = Network(1, 3, extent, extent)
    net.x = tvm.relax.Var(name, net.x.ty)
    relax = tvm.relax.op

    def body(net):
        weight = tvm.relax.const(net.drawn.standard_normal((channels, 3, 1, 1), "float32") + more)
        made = net.emit(relax.nn.conv2d(net.x, weight))
        return net.emit(relax.nn.relu(made)) if relu else made

    mod = net.build(body)
    return mod if attribute is None else mod.with_attr("told", attribute)


def tune(mod, **given):
    return tvm_ios.tune(mod, None, TARGET, **({"lanes": 1, "options": OWN_KERNELS} | given))


@pytest.mark.slow(1)
def test_a_second_call_gives_the_same_model(tmp_path):
    first, second = tune(network()), tune(network())
    assert (first.was_loaded, second.was_loaded) == (False, True)
    assert second.kept_as == first.kept_as != ""
    assert (second.graph, second.schedule) == (first.graph, first.schedule)
    assert second.report().notes[1:] == first.report().notes
    assert tvm_ffi.structural_equal(second.module, first.module, map_free_vars=True)
    second.export_library(tmp_path / "second.so")
    value = np.random.default_rng(3).standard_normal((1, 3, 6, 6)).astype("float32")
    expected = ran(first, value)
    np.testing.assert_array_equal(ran(second, value), expected)
    with tvm_ios.load(tmp_path / "second.so") as loaded:
        loaded.run(x=value)
        np.testing.assert_array_equal(loaded.get_output(0).numpy(), expected)


@pytest.mark.slow(1)
def test_a_call_for_a_report_is_kept_with_its_race_of_stock_tvm():
    given = {"lanes": 1, "options": OWN_KERNELS}
    first, second = (tune_beside_stock(network(), None, TARGET, **given) for _ in range(2))
    assert (first.was_loaded, second.was_loaded) == (False, True)
    assert second.report().evidence.stock == first.report().evidence.stock is not None


@pytest.mark.slow(1)
def test_other_calls_are_tuned(kept_folder):
    tune(network())
    assert not tune(network(more=1.0)).was_loaded
    assert not tune(network(), lanes=2).was_loaded
    fresh = replace(OWN_KERNELS, database=DatabaseOptions(fresh=True))
    assert not tune(network(), options=fresh).was_loaded
    with tvm.transform.PassContext(opt_level=3):
        assert not tune(network()).was_loaded
    assert tune(network()).was_loaded
    for path in kept_folder.iterdir():
        path.unlink()
    assert not tune(network()).was_loaded


@pytest.mark.parametrize(
    ("mod", "params"),
    [
        pytest.param(network(more=0.5), {}, id="weights"),
        pytest.param(network(extent=7), {}, id="the shape of an input"),
        pytest.param(network(name="image"), {}, id="the name of an input"),
        pytest.param(network(relu=False), {}, id="structure"),
        pytest.param(network(attribute="parts"), {}, id="an attribute"),
        pytest.param(network(), {"x": np.zeros((1, 3, 6, 6), "float32")}, id="a parameter"),
    ],
)
def test_other_models_have_other_digests(mod, params):
    assert valued_model_digest(mod, params) != valued_model_digest(network(), {})


def test_equal_models_have_equal_digests_whatever_arrays_they_are_given():
    value = np.ones((1, 3, 6, 6), "float32")
    digests = [
        valued_model_digest(network(), params)
        for params in ({"x": value}, {"x": tvm.runtime.tensor(value)})
    ]
    assert digests[0] == digests[1]
    assert valued_model_digest(network(), None) == valued_model_digest(network(), {})


def test_another_value_of_a_parameter_counts():
    values = [np.full((1, 3, 6, 6), each, "float32") for each in (1.0, 2.0)]
    assert len({valued_model_digest(network(), {"x": value}) for value in values}) == 2
