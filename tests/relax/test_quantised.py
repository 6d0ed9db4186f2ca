"""Quantised models in Relax: bytes between operators, in which oneDNN multiplies them.

The judge of random graphs is that of Relay: onnxruntime, within a quantum.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm import relax

from tests.relax.networks import TARGET, Network, answers
from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.precision.quantised_products import WEIGHTS
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.core.precision.whole_steps import steps_of_weights
from tvm_ios.relax.extract import functions_of
from tvm_ios.relax.prepare import prepare
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule

VNNI = {"kind": "llvm", "mcpu": "cascadelake"}
DATA, MIDDLE = (
    StoredType(dtype="uint8", scale=0.0625, zero_point=120),
    StoredType(dtype="int8", scale=0.125, zero_point=-3),
)


def rounded(net, value, stored):
    """Numbers of a value that whole ones stand for."""
    steps = [
        relax.const(np.float32(stored.scale)),
        relax.const(np.array(stored.zero_point, stored.dtype)),
    ]
    whole = net.emit(relax.op.quantize(value, *steps, axis=0, out_dtype=stored.dtype))
    return net.emit(relax.op.dequantize(whole, *steps, axis=0, out_dtype="float32"))


def weights(net, *shape, axis=0):
    """Whole numbers of steps, with a step for each output channel."""
    whole = net.drawn.integers(-127, 128, shape)
    whole.swapaxes(0, axis)[:, 0] = 127
    scales = net.drawn.uniform(0.01, 0.02, shape[axis])
    behind = [1] * len(shape)
    behind[axis] = -1
    return relax.const((whole * scales.reshape(behind)).astype("float32"))


def convolutions(net):
    """Two convolutions, a pooling of rounded numbers, and a residual."""
    data = rounded(net, net.x, DATA)
    first = net.emit(relax.op.nn.conv2d(data, weights(net, 16, 16, 3, 3), padding=1))
    first = net.emit(relax.op.nn.relu(net.emit(relax.op.add(first, net.constant(1, 16, 1, 1)))))
    first = rounded(net, first, MIDDLE)
    pooled = net.emit(relax.op.nn.max_pool2d(first, (3, 3), padding=1))
    second = net.emit(relax.op.nn.conv2d(pooled, weights(net, 16, 16, 1, 1)))
    both = net.emit(relax.op.add(rounded(net, second, MIDDLE), data))
    return net.emit(relax.op.multiply(rounded(net, both, MIDDLE), relax.const(2.0, "float32")))


def network(body=convolutions, shape=(1, 16, 8, 8)):
    net = Network(*shape)
    return net.build(body), net.value()


def in_order(model, value):
    """Output of one lane, one operator after another."""
    return ran(lower_schedule(model, sequential_schedule(model.graph), lanes=1), value)


def ran(compiled, value):
    with compiled.executor(options=LaneOptions(oversubscribe=True)) as executor:
        executor.run(x=value)
        return executor.get_output(0).numpy()


def is_near(found, wanted, quantum):
    """True if all but few values are as near as a quantum."""
    return np.mean(np.abs(found - wanted) > 1.01 * quantum) <= 0.002


def test_what_is_rounded_lies_in_memory_as_bytes():
    mod, _ = network()
    model = prepare(mod, None, VNNI)
    functions = functions_of(model.extraction)
    made = [each.dtype for call in model.extraction.line.calls for each in call.outputs]
    assert made[:-1] == ["uint8"] * (len(made) - 1)
    assert made[-1] == "float32"
    products = [each for each in functions if each.calls[0].operator == "nn.conv2d"]
    assert [each.stored[1] for each in products] == [StoredType(dtype="int8")] * 2
    assert products[0].rounded_to == MIDDLE.unsigned()
    assert [each.whole for each in model.extraction.graph.operators].count(True) == 2
    assert model.quantised.others == ()


@pytest.mark.slow
@pytest.mark.parametrize("target", [VNNI, TARGET], ids=["VNNI", "none"])
def test_outputs_are_those_of_stock_tvm_in_any_order(target):
    mod, value = network()
    model = build_model(mod, None, target)
    (wanted,) = answers(mod, value)
    found, other = in_order(model, value), greedy_schedule(model.graph)
    assert is_near(found, wanted, 2 * MIDDLE.scale)
    np.testing.assert_array_equal(ran(lower_schedule(model, other, lanes=2), value), found)


def test_without_instructions_for_bytes_products_are_of_float32():
    mod, _ = network()
    told = prepare(mod, None, TARGET).quantised
    assert "no VNNI" in told.never
    assert sum(count for _, count in told.others) == 2


@pytest.mark.slow
def test_onednn_multiplies_bytes():
    mod, value = network()
    model = build_model(mod, None, VNNI, libraries=(OnednnLibrary(),))
    compiled = lower_schedule(model, sequential_schedule(model.graph), lanes=2)
    calls = {each.operator for each in compiled.plan.launches if each.call is not None}
    whole = {each.name for each in model.graph.operators if each.whole}
    assert len(whole) == 2
    assert whole <= calls
    (wanted,) = answers(mod, value)
    assert is_near(ran(compiled, value), wanted, 2 * MIDDLE.scale)


@pytest.mark.slow(1)
def test_rows_times_weights_of_bytes():
    def body(net):
        data = rounded(net, net.x, DATA)
        made = net.emit(relax.op.matmul(data, weights(net, 32, 24, axis=1)))
        made = rounded(
            net, net.emit(relax.op.add(made, net.constant(24))), replace(MIDDLE, scale=0.5)
        )
        return net.emit(relax.op.nn.softmax(made))

    mod, value = network(body, (2, 6, 32))
    model = build_model(mod, None, VNNI, libraries=(OnednnLibrary(),))
    assert [each.whole for each in model.graph.operators].count(True) == 1
    (wanted,) = answers(mod, value)
    np.testing.assert_allclose(
        in_order(model, value),
        wanted,
        atol=1e-2,
    )


@pytest.mark.slow(1)
def test_products_of_two_tensors_read_bytes_and_dear_functions_are_tables():
    def body(net):
        data = rounded(net, net.x, DATA)
        turned = net.emit(relax.op.permute_dims(data, [0, 2, 1]))
        square = rounded(net, net.emit(relax.op.matmul(data, turned)), replace(MIDDLE, scale=0.5))
        bent = rounded(net, net.emit(relax.op.tanh(data)), replace(MIDDLE, scale=0.0625))
        other = net.emit(relax.op.matmul(bent, weights(net, 8, 6, axis=1)))
        return net.emit(relax.op.add(other, square))

    mod, value = network(body, (2, 6, 8))
    model = build_model(mod, None, VNNI, libraries=(OnednnLibrary(),))
    calls = zip(model.graph.operators, model.prepared.extraction.line.calls, strict=True)
    made = {each.kind: call.outputs[0].dtype for each, call in calls}
    assert made["transpose"] == "int8"
    whole = [each.kind for each in model.graph.operators if each.whole]
    assert whole == ["matmul_multiply", "matmul_rounded_add"]
    (bent,) = (index for index, each in enumerate(model.graph.operators) if "tanh" in each.kind)
    (read, table) = model.prepared.extraction.constants_of(bent)
    assert (read, table.shape, table.dtype) == (None, (256,), "uint8")
    assert model.prepared.quantised.others == ()
    (wanted,) = answers(mod, value)
    found = in_order(model, value)
    assert np.abs(found - wanted).max() <= 0.05 * np.abs(wanted).max()
    other = lower_schedule(model, greedy_schedule(model.graph), lanes=2)
    np.testing.assert_array_equal(ran(other, value), found)


def test_weights_that_are_no_steps_are_told_and_float32():
    def body(net):
        made = net.emit(relax.op.nn.conv2d(rounded(net, net.x, DATA), net.constant(8, 16, 3, 3)))
        return net.emit(relax.op.nn.relu(rounded(net, made, replace(MIDDLE, scale=2.0))))

    mod, value = network(body)
    model = build_model(mod, None, VNNI)
    assert model.prepared.quantised.others == ((WEIGHTS, 1),)
    (wanted,) = answers(mod, value)
    assert is_near(in_order(model, value), wanted, 2.0)


def test_ties_are_rounded_to_even_by_scales_that_a_run_tells():
    def body(net):
        scale = net.emit(relax.op.max(relax.op.abs(net.x)))
        zero = relax.const(np.array(0, "int8"))
        whole = relax.op.quantize(net.x, net.emit(scale), zero, axis=0, out_dtype="int8")
        return net.emit(relax.op.astype(net.emit(whole), "float32"))

    mod, _ = network(body, (8,))
    value = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1.0, 2.0], "float32") * 2
    value[-1] = 5.0
    found = in_order(build_model(mod, None, TARGET), value)
    np.testing.assert_array_equal(found, np.rint(value / 5))


def test_steps_of_our_weights_are_found():
    found = steps_of_weights(weights(Network(1), 4, 8, 3, 3).value.numpy(), (0,))
    assert found is not None
    assert np.abs(found[0]).max() == 127


@pytest.mark.slow(10)
@pytest.mark.parametrize(
    "number", [0, 1, *(pytest.param(n, marks=pytest.mark.full) for n in (2, 3))]
)
def test_random_quantised_graphs(number):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from tests.onnx.random_models.quantised_judging import judged

    found = judged(0, number)
    assert found is not None
    assert not found.refused
    assert not found.wrong
