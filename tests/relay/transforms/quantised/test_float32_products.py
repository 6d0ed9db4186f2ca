"""Products of quantised models that are computed in float32, by reason."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import quantised_images
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.relay.functions.quantised import fake_quantize
from tvm_ios.relay.prepare import prepare
from tvm_ios.relay.transforms.quantised.float32_products import INPUTS, SHARED, WEIGHTS

WITH_VNNI, WITHOUT = "llvm -mcpu=cascadelake", "llvm -mcpu=core-avx2"
ROWS = 4, 32


def rounded(value):
    return fake_quantize(value, StoredType(dtype="uint8", scale=0.02, zero_point=128))


def multiplied(value, *, steps):
    drawn = np.random.default_rng(0).integers(-127, 128, (32, 32)) * np.float32(0.01)
    drawn[:, 0] = 1.27
    weights = drawn if steps else np.sin(drawn)
    return relay.nn.dense(value, relay.const(weights.astype("float32")))


def of_inputs(x):
    return relay.nn.batch_matmul(relay.expand_dims(x, 0), relay.expand_dims(x * x, 0))


MODELS = {
    "whole": (lambda x: multiplied(x, steps=True), {}),
    "weights": (lambda x: multiplied(x, steps=False), {WEIGHTS: 1}),
    "shared": (
        lambda x: multiplied(x, steps=True) + multiplied(x, steps=False),
        {SHARED: 1, WEIGHTS: 1},
    ),
    "inputs": (of_inputs, {INPUTS: 1}),
}


@pytest.mark.parametrize("name", MODELS)
def test_reasons_are_those_of_each_product(name):
    make, wanted = MODELS[name]
    x = relay.var("x", shape=ROWS)
    module = tvm.IRModule.from_expr(relay.Function([x], make(rounded(x))))
    prepared = prepare(module, None, WITH_VNNI)
    assert dict(prepared.quantised.others) == wanted
    assert sum(each.whole for each in prepared.extraction.graph.operators) == (name == "whole")


@pytest.mark.parametrize(
    ("target", "whole", "never"),
    [
        (WITH_VNNI, 5, ""),
        (WITHOUT, 0, "the target has no VNNI (avx512vnni)"),
        ("cuda -arch=sm_90", 0, "that is what GPUs compute here"),
    ],
)
def test_only_targets_with_vnni_multiply_bytes(target, whole, never):
    prepared = prepare(quantised_images(), None, target)
    assert prepared.quantised.never == never
    assert sum(each.whole for each in prepared.extraction.graph.operators) == whole
    assert sum(count for _, count in prepared.quantised.others) == 5 - whole
    types = {str(call.checked_type.dtype) for call in prepared.extraction.calls}
    assert types == ({"uint8", "float32"} if whole else {"float32"})


def test_other_models_have_none():
    x = relay.var("x", shape=ROWS)
    module = tvm.IRModule.from_expr(relay.Function([x], multiplied(x, steps=True)))
    assert prepare(module, None, WITH_VNNI).quantised is None
