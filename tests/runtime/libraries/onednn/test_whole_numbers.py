"""Products of whole numbers by oneDNN, whole and in parts, against kernels of TVM."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.runtime.libraries.onednn.prepared import cut_every_call
from tvm_ios.compile.built_model import BuiltModel, build_prepared
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.host import cached_libinfo, host_target
from tvm_ios.relay.functions.quantised import fake_quantize
from tvm_ios.relay.prepare import PRODUCTS_OF_BYTES, prepare
from tvm_ios.runtime.libraries.onednn.provider import OnednnLibrary
from tvm_ios.search.baselines import sequential_schedule

READ = StoredType(dtype="uint8", scale=0.04, zero_point=131)
WRITTEN = StoredType(dtype="int8", scale=0.09, zero_point=-9)
POSITIVE = StoredType(dtype="uint8", scale=0.03)
SHAPE = (1, 14, 14, 32)


@pytest.fixture(autouse=True)
def _processor(onednn):
    if not tvm.target.codegen.target_has_features(
        PRODUCTS_OF_BYTES, tvm.target.Target(host_target())
    ):
        pytest.skip("this processor multiplies no bytes by fours")


def weights(*shape, axis=-1, seed=0, most=127):
    drawn = np.random.default_rng(seed).integers(most - 255, most, shape, endpoint=True)
    np.moveaxis(drawn, axis, 0)[(slice(None), *[0] * (len(shape) - 1))] = most
    spread = [1] * len(shape)
    spread[axis] = -1
    scales = np.linspace(2e-4, 9e-4, shape[axis]).reshape(spread)
    return relay.const((drawn * scales).astype("float32"))


def vector(count, seed=1):
    return relay.const(np.random.default_rng(seed).uniform(-1, 1, count).astype("float32"))


def convolved(x, channels=48, kernel=3, groups=1, inputs=32, bias=True, **how):
    shape = (kernel, kernel, inputs // groups, channels)
    layout = "HWIO"
    if groups == inputs:
        shape, layout = (kernel, kernel, channels, 1), "HWOI"
    weight = weights(*shape, axis=3 if layout == "HWIO" else 2)
    how = {"padding": (kernel // 2,) * 2, **how}
    made = relay.nn.conv2d(
        x,
        weight,
        channels=channels,
        kernel_size=(kernel, kernel),
        groups=groups,
        data_layout="NHWC",
        kernel_layout=layout,
        **how,
    )
    return made + vector(channels) if bias else made


def dense(x, channels=128, most=127):
    read = relay.reshape(x, (49, 128))
    return relay.nn.dense(read, weights(channels, 128, axis=0, most=most)) + vector(channels)


def written(value):
    return fake_quantize(value, WRITTEN)


OPERATORS = {
    "3x3": lambda x: written(convolved(x)),
    "1x1": lambda x: written(convolved(x, kernel=1, bias=False)),
    "ReLU": lambda x: fake_quantize(relay.nn.relu(convolved(x)), POSITIVE),
    "strides": lambda x: written(convolved(x, strides=(2, 2), padding=(0, 1, 2, 0))),
    "depthwise": lambda x: written(convolved(x, channels=32, groups=32)),
    "numbers": convolved,
    "GELU": lambda x: written(gelu(convolved(x))),
    "residual": lambda x: written(relay.nn.relu(written(convolved(x, channels=32)) + x)),
    "residual, numbers": lambda x: convolved(x, channels=32) + x,
    "difference": lambda x: written(convolved(x, channels=32) - x),
    "maximum": lambda x: written(relay.maximum(convolved(x, channels=32), x)),
    "gate": lambda x: written(convolved(x, channels=32) * positive(x)),
    "dense": lambda x: written(
        relay.nn.dense(relay.reshape(x, (196, 32)), weights(24, 32, axis=0)) + vector(24)
    ),
    "dense, packed": lambda x: written(dense(x, channels=96)),
    "nine bits": lambda x: written(dense(x, most=150)),
    "two tensors": lambda x: product_of_two(x, relay.const(0.3)),
    "two tensors, ended": lambda x: written(product_of_two(x, relay.const(0.02))),
    "max pooling": lambda x: relay.nn.max_pool2d(
        x, (3, 3), strides=(2, 2), padding=(1, 1), layout="NHWC"
    ),
}


ALIKE = {"numbers", "dense", "two tensors"}
"""Operators that take the way of another one, such as "residual, numbers" and "dense, packed"."""


def product_of_two(x, factor):
    left = relay.reshape(x, (14, 14, 32))
    other = fake_quantize(relay.exp(x * factor), replace(WRITTEN, scale=0.03))
    right = relay.transpose(relay.reshape(other, (14, 14, 32)), (2, 0, 1))
    right = relay.transpose(right, (1, 2, 0))
    return relay.nn.batch_matmul(left, right) * relay.const(0.01)


def positive(x):
    pooled = relay.nn.max_pool2d(x, (3, 3), padding=(1, 1), layout="NHWC")
    return fake_quantize(relay.nn.relu(pooled), POSITIVE)


def gelu(x):
    half = relay.const(0.5)
    return x * (half + relay.erf(x * relay.const(2**-0.5)) * half)


def built(make) -> BuiltModel:
    x = relay.var("x", shape=SHAPE)
    body = make(fake_quantize(x, READ))
    # What the model gives is of float32: something has to read the whole numbers.
    module = tvm.IRModule.from_expr(relay.Function([x], relay.transpose(body)))
    with cached_libinfo():
        return build_prepared(prepare(module, None, f"{host_target()} -opt-level=0"))


def outputs(model, lanes=2):
    plan = lower_schedule(model, sequential_schedule(model.graph), lanes=lanes)
    values = np.random.default_rng(3).uniform(-6, 6, SHAPE).astype("float32")
    with plan.executor() as module:
        module.run(x=values)
        found = module.get_output(0).numpy()
        calls = [launch.call for launch in module.plan.launches if launch.call is not None]
    return found, [call.descriptor for call in calls]


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full) if name in ALIKE else name for name in OPERATORS],
)
def test_operators_are_right_within_a_quantum(monkeypatch, name):
    model = built(OPERATORS[name])
    wanted, _ = outputs(model)
    able = replace(model, libraries=(OnednnLibrary(),))
    for cut in ("1x1x1", "1x1x2", "1x2x1"):
        with monkeypatch.context() as patch:
            cut_every_call(patch, cut)
            found, calls = outputs(able)
        assert {call.data.dtype for call in calls} == {"uint8"}
        apart = np.abs(found - wanted) / WRITTEN.scale
        assert apart.max() < 1.01
        assert (apart > 0.01).mean() < 1e-3


UNLIKE = {
    "product": lambda x: dense(x) + relay.reshape(relay.nn.softmax(x), (49, 128)),
    "convolution": lambda x: convolved(x, channels=32) + relay.nn.softmax(x),
}


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", UNLIKE)
def test_an_operand_of_another_type_than_the_result_is_read_rightly(monkeypatch, name):
    model = built(lambda x: written(UNLIKE[name](x)))
    wanted, _ = outputs(model)
    cut_every_call(monkeypatch, "1x2x1")  # as which it must not be computed
    found, (call,) = outputs(replace(model, libraries=(OnednnLibrary(),)))
    types = [step.operand.dtype for step in call.steps if step.operand is not None]
    assert (call.result.dtype, types) == ("uint8", ["float32"] * 3)
    apart = np.abs(found - wanted) / WRITTEN.scale
    assert (apart > 0.01).mean() < 1e-3


@pytest.mark.slow(1)
def test_an_operand_of_another_type_is_not_read_in_blocks_of_channels():
    def blocked(x):
        weight = weights(48, 32, 1, 1, axis=0, most=150)  # in nine bits: a product is added
        moved = relay.transpose(x, (0, 3, 1, 2))
        return written(relay.nn.conv2d(moved, weight, channels=48, kernel_size=(1, 1)))

    model = replace(built(blocked), libraries=(OnednnLibrary(),))
    wanted, _ = outputs(replace(model, libraries=()))
    found, _ = outputs(model)
    assert (np.abs(found - wanted) > 0.01 * WRITTEN.scale).mean() < 1e-3


@pytest.mark.slow(1)
def test_padding_is_zero_whatever_stands_for_it(monkeypatch):
    cut_every_call(monkeypatch, "1x1x1")
    model = replace(built(OPERATORS["3x3"]), libraries=(OnednnLibrary(),))
    found, (call,) = outputs(model)
    assert call.data.zero_point == READ.zero_point
    assert call.window.padding == (1, 1, 1, 1)
    wanted, _ = outputs(replace(model, libraries=()))
    np.testing.assert_allclose(found[..., 0, :], wanted[..., 0, :], atol=WRITTEN.scale * 1.01)
