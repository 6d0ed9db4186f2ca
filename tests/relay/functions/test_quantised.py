"""Operators between numbers and the whole numbers that stand for them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.stock import stock_outputs
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.relay.functions.quantised import (
    dequantize,
    fake_quantize,
    is_fake_quantize,
    quantize,
    stored_type_of,
)

STORED = StoredType(dtype="uint8", scale=0.125, zero_point=100)
VALUES = np.linspace(-40, 40, 64).reshape(1, 4, 4, 4).astype("float32")
WHOLE = np.clip(np.rint(VALUES / 0.125) + 100, 0, 255).astype("uint8")
NUMBERS = (WHOLE.astype("float32") - 100) * np.float32(0.125)


def outputs(body, **inputs):
    module = tvm.IRModule.from_expr(body)
    with tvm.transform.PassContext(opt_level=3):
        return stock_outputs(relay.build(module, target="llvm -opt-level=0"), **inputs)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (quantize, WHOLE),
        (fake_quantize, NUMBERS),
        (lambda value, stored: dequantize(quantize(value, stored), stored), NUMBERS),
    ],
    ids=["quantize", "fake", "both"],
)
def test_numbers_are_the_nearest_ones(make, wanted):
    x = relay.var("x", shape=VALUES.shape)
    (found,) = outputs(relay.Function([x], make(x, STORED)), x=VALUES)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_calls_tell_of_their_whole_numbers():
    x = relay.var("x", shape=(4,))
    call = fake_quantize(x, STORED)
    assert is_fake_quantize(call)
    assert not is_fake_quantize(quantize(x, STORED))
    assert stored_type_of(call) == STORED
    again = tvm.ir.load_json(tvm.ir.save_json(call))
    assert stored_type_of(again) == STORED


def test_they_follow_the_layout_that_tvm_chooses():
    x = relay.var("x", shape=(1, 16, 8, 8))
    weight = relay.const(np.full((16, 16, 1, 1), 0.25, "float32"))

    def convolved(value):
        return relay.nn.conv2d(value, weight, channels=16, kernel_size=(1, 1))

    body = convolved(fake_quantize(relay.nn.relu(convolved(x)), STORED))
    with tvm.transform.PassContext(opt_level=3):
        module, _ = relay.optimize(tvm.IRModule.from_expr(body), target="llvm -mcpu=core-avx2")
    text = str(module["main"])
    assert text.count("layout_transform(") == 2, "before the first and after the last one"
