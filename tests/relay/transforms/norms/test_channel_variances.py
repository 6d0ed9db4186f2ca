"""Variances over channels, which TVM gets wrong in blocked layouts."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_ios
from tvm_ios.relay.dataflow import all_calls, is_call_of
from tvm_ios.relay.transforms.norms.channel_variances import without_channel_variances
from tvm_ios.support.exact_bits import exact_bits

TARGET = "llvm -mcpu=skylake-avx512"
SHAPE = (1, 32, 5, 5)


def weights(*shape, seed):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype("float32")


def conv(x, seed):
    kernel = relay.const(weights(32, 32, 1, 1, seed=seed))
    return relay.nn.conv2d(x, kernel, channels=32, kernel_size=(1, 1))


def network(norm):
    x = relay.var("x", shape=SHAPE)
    last = conv(norm(conv(x, 0)), 1)
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], last)))


def layer_norm(x):
    ones = relay.const(np.ones(32, "float32"))
    return relay.nn.layer_norm(x, ones, ones - ones, axis=1)


def written_out(x):
    mean = relay.mean(x, [1], keepdims=True)
    variance = relay.variance(x, [1], keepdims=True, with_mean=mean)
    return (x - mean) / relay.sqrt(variance + relay.const(1e-5))


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("norm", [layer_norm, written_out])
def test_norms_over_blocked_channels_are_right(norm, exact):
    values = weights(*SHAPE, seed=2)
    with exact_bits(exact):
        model = tvm_ios.compile_schedule(network(norm), None, TARGET)
        with model.executor() as executor:
            executor.run(x=values)
            found = executor.get_output(0).numpy()
    first = np.einsum("oi,bihw->bohw", weights(32, 32, 1, 1, seed=0)[:, :, 0, 0], values)
    normed = (first - first.mean(1, keepdims=True)) / np.sqrt(first.var(1, keepdims=True) + 1e-5)
    expected = np.einsum("oi,bihw->bohw", weights(32, 32, 1, 1, seed=1)[:, :, 0, 0], normed)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_other_variances_stay():
    module = network(lambda x: x - relay.variance(x, [2, 3], keepdims=True))
    assert without_channel_variances(module).same_as(module)
    changed = without_channel_variances(network(written_out))
    assert not any(is_call_of(call, "variance") for call in all_calls(changed["main"].body))


def test_unbiased_variances_divide_by_one_less():
    x = relay.var("x", shape=(2, 5, 3))
    module = tvm.IRModule.from_expr(relay.Function([x], relay.variance(x, 1, unbiased=True)))
    changed = without_channel_variances(relay.transform.InferType()(module))
    values = weights(2, 5, 3, seed=3)
    with tvm.transform.PassContext(opt_level=0):
        run = relay.create_executor("graph", changed, target="llvm").evaluate()
    np.testing.assert_allclose(run(values).numpy(), values.var(1, ddof=1), rtol=1e-5)
