"""Norms kept whole: which operators become one function, and that results stay."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tests.relay_modules import fused_operators
from tests.stock import stock_outputs
from tvm_ios.relay import prepare
from tvm_ios.support.exact_bits import exact_bits

CPU, GPU = "llvm -mcpu=skylake-avx512 -opt-level=0", "cuda -arch=sm_70"
IMAGE = (1, 32, 6, 6)


def row(shape=(7, 24), name="x"):
    return relay.var(name, shape=shape)


def weights(*shape, seed=0):
    return relay.const(np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32"))


def conv(x, seed):
    return relay.nn.conv2d(x, weights(32, 32, 1, 1, seed=seed), channels=32, kernel_size=(1, 1))


def layer_norm(x, size=24):
    """Layer norm as PyTorch's exporter writes it below opset 17."""
    off = x - relay.mean(x, [-1], keepdims=True)
    variance = relay.mean(relay.power(off, relay.const(2.0)), [-1], keepdims=True)
    return off / relay.sqrt(variance + relay.const(1e-5)) * weights(size) + weights(size, seed=1)


def kernels(result, target=CPU):
    return fused_operators(result, target)


@pytest.mark.parametrize(
    "norm",
    [
        layer_norm,
        lambda x: relay.nn.layer_norm(x, weights(24), weights(24)),
        lambda x: x / relay.sqrt(relay.mean(x * x, [-1], keepdims=True)) * weights(24),
        lambda x: x / relay.sqrt(relay.sum(x * x, [1], keepdims=True)),
    ],
    ids=["written out", "layer", "RMS", "L2"],
)
@pytest.mark.slow
def test_a_norm_is_one_kernel_with_its_neighbours(norm):
    x = row()
    (found,) = kernels(relay.tanh(norm(relay.nn.relu(x) + row(name="y"))))
    assert found[0] == "nn.relu"
    assert found[-1] == "tanh"


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 8, 16], ids=str)
def test_group_norms_are_one_kernel(groups):
    x = row(IMAGE)
    flat = relay.reshape(x, (0, groups, -1))
    off = flat - relay.mean(flat, 2, keepdims=True)
    norm = off / relay.sqrt(relay.variance(flat, 2, keepdims=True) + relay.const(1e-5))
    scaled = relay.reshape(norm, IMAGE) * weights(32, 1, 1)
    assert len(kernels(scaled * relay.sigmoid(scaled))) == 1
    assert len(kernels(relay.nn.group_norm(x, weights(32), weights(32), groups))) == 1
    assert len(kernels(relay.nn.instance_norm(x, weights(32), weights(32)))) == 1


def test_a_sum_that_others_read_stays_a_tensor():
    x = row()
    total = relay.nn.relu(x) + row(name="y")
    assert len(kernels(relay.nn.dense(layer_norm(total), weights(24, 24)) + total)) == 3


def test_what_ends_a_product_stays_there():
    x = relay.nn.dense(row(), weights(24, 24)) + weights(24)
    first, second = kernels(layer_norm(x))
    assert first[-1] == "add"
    assert "add" not in second[:3]


def test_a_norm_between_blocked_convolutions_takes_in_layouts_and_transposes():
    x = row(IMAGE)

    y = relay.transpose(relay.nn.relu(conv(x, 0)), (0, 2, 3, 1))
    found = kernels(conv(relay.transpose(layer_norm(y, 32), (0, 3, 1, 2)), 1))
    norm = next(names for names in found if "einsum" in names)
    assert norm[:2] == ["layout_transform", "transpose"]
    assert norm[-2:] == ["transpose", "layout_transform"]


def test_a_norm_of_a_gelu_is_one_kernel():
    x = row()
    (names,) = kernels(layer_norm(x * (relay.erf(x) + relay.const(1.0))))
    assert names.count("einsum") == 2


def test_one_channel_of_a_gate_is_no_norm():
    x = row(IMAGE)
    gate = conv(relay.mean(x, [2, 3], keepdims=True), 0)
    x = x * relay.sigmoid(gate)
    assert not any("einsum" in names for names in kernels(x))


def test_nothing_changes_under_exact_bits_or_on_a_gpu():
    with exact_bits(True):
        assert not any("einsum" in names for names in kernels(layer_norm(row())))
    assert not any("einsum" in names for names in kernels(layer_norm(row()), GPU))


@pytest.mark.slow
def test_the_prepared_module_runs_with_plain_relay_build():
    x = row()
    result = relay.nn.softmax(layer_norm(x))
    module = tvm.IRModule.from_expr(relay.Function([x], result))
    values = np.random.default_rng(0).standard_normal((7, 24)).astype("float32")
    with tvm.transform.PassContext(opt_level=3):
        expected, found = (
            stock_outputs(relay.build(each, CPU), x=values)[0]
            for each in (module, prepare(module, None, CPU).module)
        )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    with tvm_ios.compile_schedule(module, None, CPU).executor() as executor:
        executor.run(x=values)
        np.testing.assert_allclose(executor.get_output(0).numpy(), expected, rtol=1e-5, atol=1e-6)
