"""Tables of functions of a byte, without a dialect."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall, TensorType
from tvm_ios.core.precision.byte_tables import table_of
from tvm_ios.core.precision.stored_type import FAKE_QUANTIZE, StoredType

READ = StoredType(dtype="uint8", scale=0.03, zero_point=128)
WRITTEN = StoredType(dtype="uint8", scale=0.02, zero_point=20)
NUMBERS = TensorType((4, 4), "float32")


def call(operator, *operands, **attributes):
    return PrimitiveCall(
        operator=operator, operands=operands, result=NUMBERS, attributes=tuple(attributes.items())
    )


def function(*calls):
    return FusedFunction(
        parameters=(TensorType((4, 4), "uint8"),), calls=calls, stored=(READ,), rounded_to=WRITTEN
    )


def test_each_byte_has_the_number_that_is_computed_of_it():
    inner = StoredType(dtype="int8", scale=0.01, zero_point=0)
    found = table_of(
        function(
            call("tanh", 0),
            call(FAKE_QUANTIZE, 1, **asdict(inner)),
            call("constant", value=2.0),
            call("multiply", 2, 3),
            call("clip", 4, a_min=-1.0, a_max=1.5),
        )
    )
    wanted = []
    for byte in range(256):
        bent = round(math.tanh((byte - 128) * 0.03) / 0.01) * 0.01
        wanted.append(max(0, round(min(max(2 * bent, -1.0), 1.5) / 0.02) + 20))
    assert found.dtype == "uint8"
    assert np.abs(found.astype(int) - wanted).max() <= 1
    assert (found == wanted).mean() > 0.95  # others are ties


def test_what_is_cheap_or_depends_on_more_has_none():
    tanh = function(call("tanh", 0))
    assert table_of(tanh) is not None
    assert table_of(function(call("nn.relu", 0))) is None
    assert table_of(function(call("tanh", 0), call("nn.softmax", 1))) is None
    assert table_of(function(call("tanh", 0), call("constant"), call("add", 1, 2))) is None
    assert table_of(replace(tanh, rounded_to=None)) is None
    assert table_of(replace(tanh, rounded_to=WRITTEN.signed())) is None
    assert table_of(replace(tanh, stored=(READ, None))) is None
