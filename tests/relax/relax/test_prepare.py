from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.relax.networks import TARGET, Network, answers, squeezenet
from tests.relax.relax.modules import Branches, Unprepared
from tvm_ios.errors import ModelError
from tvm_ios.relax.model_digest import valued_model_digest
from tvm_ios.relax.prepare import prepare


def test_operators_become_one_kernel():
    module = prepare(Unprepared, None, TARGET).module
    calls = [binding.value for block in module["main"].body.blocks for binding in block.bindings]
    assert [call.op.name for call in calls if isinstance(call, relax.Call)] == ["relax.call_tir"]
    relax.analysis.check_well_formed(module)


def test_parameters_are_bound():
    w = np.arange(32, dtype="float32").reshape(4, 8) - 9
    x = np.full((4, 8), -2, "float32")
    module = prepare(Unprepared, {"w": w}, TARGET).module
    assert [parameter.name for parameter in module["main"].params] == ["x"]
    np.testing.assert_array_equal(answers(module, x)[0], np.maximum(x * w, 0))


def test_parameters_may_be_those_that_tvm_detached():
    w = np.arange(32, dtype="float32").reshape(4, 8) - 9
    with_weights = Unprepared["main"].with_attrs(
        {"num_input": 1, "params": [tvm.runtime.tensor(w)]}
    )
    mod, params = relax.frontend.detach_params(tvm.IRModule({"main": with_weights}))
    module = prepare(mod, params, TARGET).module
    assert [parameter.name for parameter in module["main"].params] == ["x"]
    tvm.ir.assert_structural_equal(module, prepare(mod, {"w": w}, TARGET).module)
    assert valued_model_digest(mod, params) == valued_model_digest(mod, {"w": w})
    with pytest.raises(ModelError, match=r"has 2 arrays of main, .* are 1: w; give"):
        prepare(mod, {"main": params["main"] * 2}, TARGET)


def test_the_users_module_is_not_changed():
    before = Unprepared.script()
    prepare(Unprepared, {"w": np.zeros((4, 8), "float32")}, TARGET)
    assert Unprepared.script() == before


def test_a_prepared_module_stays_as_it_is():
    tvm.ir.assert_structural_equal(prepare(Branches, None, TARGET).module, Branches)


@pytest.mark.slow
def test_results_are_those_of_stock_tvm():
    mod, params, value = squeezenet()
    stock = relax.transform.BindParams("main", params)(mod)
    (ours,) = answers(prepare(mod, params, TARGET).module, value)
    np.testing.assert_allclose(ours, answers(stock, value)[0], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("training", [True, False])
def test_norms_of_training_stay_so(training):
    network = Network(2, 4, 3, 3)

    def body(net):
        values = [net.constant(4) for _ in range(3)]
        variance = relax.const(np.full(4, 2, "float32"))
        made = relax.op.nn.batch_norm(net.x, *values, variance, axis=1, training=training)
        return net.emit(relax.TupleGetItem(net.emit(made), 0))

    mod = network.build(body)
    (ours,) = answers(prepare(mod, None, TARGET).module, network.value())
    np.testing.assert_allclose(ours, answers(mod, network.value())[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"v": np.zeros((4, 8), "float32")}, "main has no parameter 'v'; it has x, w"),
        ({"w": np.zeros((4, 9), "float32")}, r"'w' is float32 of shape \(4, 9\); main has float32"),
        ({"w": np.zeros((4, 8))}, "'w' is float64"),
    ],
)
def test_wrong_parameters_are_refused(params, message):
    with pytest.raises(ModelError, match=message):
        prepare(Unprepared, params, TARGET)


def test_other_things_are_refused():
    with pytest.raises(ModelError, match=r"with a function 'main' in Relax, got str; .*from_torch"):
        prepare("model", None, TARGET)
    with pytest.raises(ModelError, match=r"got functions \['twice'\]"):
        prepare(tvm.IRModule({"twice": Branches["twice"]}), None, TARGET)


@pytest.mark.slow(1)
def test_images_in_another_layout_are_turned_at_the_ends_only():
    def body(net):
        clipped = net.emit(relax.op.clip(net.conv(net.x, 8, 3), 0, 6))
        pooled = net.emit(relax.op.nn.max_pool2d(clipped, (2, 2)))
        return net.emit(relax.op.nn.leakyrelu(net.conv(pooled, 8, 3), 0.1))

    network = Network(1, 4, 6, 6)
    mod = network.build(body)
    prepared = prepare(mod, None, TARGET, image_layout="NHWC")
    kinds = [each.kind for each in prepared.extraction.graph.operators]
    assert [each for each in kinds if "transpose" in each] == [kinds[0], kinds[-1]]
    (answer,) = answers(prepared.module, network.value())
    (expected,) = answers(mod, network.value())
    np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_images_in_blocks_of_channels_have_concatenations_that_copy_nothing():
    """Convolutions of 3 channels, in groups of several, and of odd numbers are in NHWC."""

    def body(net):
        made = net.conv(net.x, 16, 3, strides=2)
        window = {"strides": (2, 1), "padding": (2, 1, 1, 2)}
        weights = net.constant(16, 1, 3, 3), net.constant(8, 16, 3, 3)
        apart = net.emit(relax.op.nn.conv2d(made, weights[0], groups=16, **window))
        wide = net.emit(relax.op.nn.conv2d(made, weights[1], **window))
        joined = net.emit(relax.op.concat([apart, wide, apart], axis=1))
        grouped = net.emit(relax.op.nn.conv2d(joined, net.constant(8, 20, 1, 1), groups=2))
        return net.conv(net.conv(grouped, 7, 3), 8, 1)

    network = Network(1, 3, 12, 14)
    mod = network.build(body)
    prepared = prepare(mod, None, TARGET, image_layout="NCHW8c")
    operators = prepared.extraction.graph.operators
    assert [each.view for each in operators if each.kind == "concatenate"] == [True]
    (answer,) = answers(prepared.module, network.value())
    (expected,) = answers(mod, network.value())
    np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=1e-4)


def test_a_layout_that_nobody_knows_is_refused():
    with pytest.raises(ModelError, match="image_layout='CHWN'.*one of NHWC"):
        prepare(Unprepared, None, TARGET, image_layout="CHWN")


@pytest.mark.parametrize("without", ["scale", "center"])
def test_norms_that_tvm_would_fold_wrongly_stay(without):
    def body(net):
        rows = [net.constant(4) for _ in range(3)]
        variance = relax.const(np.linspace(0.5, 2, 4, dtype="float32"))
        made = net.emit(relax.op.nn.conv2d(net.x, net.constant(4, 4, 1, 1)))
        options = {"axis": 1, "training": False, without: False}
        normed = net.emit(relax.op.nn.batch_norm(made, *rows, variance, **options))
        return net.emit(relax.TupleGetItem(normed, 0))

    network = Network(1, 4, 5, 5)
    mod = network.build(body)
    (answer,) = answers(prepare(mod, None, TARGET).module, network.value())
    (expected,) = answers(mod, network.value())
    np.testing.assert_allclose(answer, expected, rtol=1e-4, atol=1e-4)


def test_indices_outside_are_clipped_since_prices_come_from_made_up_ones():
    network = Network(6, 3)
    indices = relax.const(np.array([0, 5, 2**30, -(2**30)], "int64"))

    def body(net):
        return net.emit(relax.op.take(net.x, indices, axis=0))

    value = network.value()
    (found,) = answers(prepare(network.build(body), None, TARGET).module, value)
    np.testing.assert_array_equal(found, value[[0, 5, 5, 0]])
