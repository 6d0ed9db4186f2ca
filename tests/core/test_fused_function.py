"""Tensors and fused functions as data."""

from __future__ import annotations

import pytest

from tvm_ios.core.fused_function import FusedFunction, PrimitiveCall, TensorType


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        ((8,), (8, 1, 1), True),
        ((1, 8, 2), (8, 2), True),
        ((1, 1), (), True),
        ((8, 1, 2), (8, 2), False),
        ((2, 8), (8, 2), False),
    ],
)
def test_ones_at_the_ends_change_no_bytes(first, second, fits):
    assert TensorType(first, "float32").fits(TensorType(second, "float32")) is fits
    assert TensorType(second, "float32").fits(TensorType(first, "float32")) is fits
    assert not TensorType(first, "float32").fits(TensorType(second, "float16"))


def test_values_are_parameters_and_then_results():
    tensor = TensorType((2,), "float32")
    call = PrimitiveCall(
        operator="clip", operands=(0,), result=tensor, attributes=(("a_min", 0.0),)
    )
    function = FusedFunction(parameters=(tensor, tensor), calls=(call,))
    assert function.result_of(0) == 2
    assert (call.attribute("a_min"), call.attribute("a_max", 6.0)) == (0.0, 6.0)
