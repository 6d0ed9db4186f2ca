"""Tables of functions of a byte beside the kernels of the functions themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay.schedules.kernel import lower, run
from tvm_ios.core.precision.byte_tables import table_of
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.relay.functions.fused_function import describe_function
from tvm_ios.relay.functions.quantised import dequantize, fake_quantize, quantize
from tvm_ios.relay.functions.stored_types import typed
from tvm_ios.relay.transforms.quantised.tables import with_table

READ = StoredType(dtype="uint8", scale=0.03, zero_point=128)
WRITTEN = StoredType(dtype="uint8", scale=0.02, zero_point=20)
INSIDE = StoredType(dtype="int8", scale=0.008, zero_point=-3)
COUNT = 256
"""Bytes that there are."""


def number(value: float) -> relay.Constant:
    return relay.const(np.float32(value))


def gelu(value: relay.Expr) -> relay.Expr:
    bent = fake_quantize(relay.erf(value * number(0.7071)), INSIDE)
    return number(0.5) * (value * fake_quantize(bent + number(1), INSIDE))


FUNCTIONS: dict[str, Callable[[relay.Expr], relay.Expr]] = {
    "gelu": gelu,
    "sigmoid": relay.sigmoid,
    "swish": lambda value: relay.nn.relu(value) / (number(1) + relay.exp(relay.negative(value))),
    "tanh": lambda value: relay.clip(relay.tanh(value), -0.5, 0.6) - number(0.1),
    "logarithm": lambda value: relay.log(relay.maximum(value, number(0.01))),
}


def function_of(make: Callable[[relay.Expr], relay.Expr]) -> relay.Function:
    """Function from bytes to bytes."""
    value = relay.var("x", shape=(COUNT,), dtype="uint8")
    made = relay.Function([value], quantize(make(dequantize(value, READ)), WRITTEN))
    return typed(made.with_attr("Primitive", tvm.tir.IntImm("int32", 1)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tables_have_what_kernels_compute(name: str) -> None:
    function = function_of(FUNCTIONS[name])
    every = np.arange(COUNT, dtype="uint8")
    expected = run(lower(function.body), [every]).astype("int32")
    table = table_of(describe_function(function))
    assert table is not None
    away = np.abs(table.astype("int32") - expected)
    assert away.max() <= 1  # in ties, since kernels have other functions than NumPy
    assert (away > 0).sum() <= COUNT // 100


def test_bytes_are_looked_up() -> None:
    function = function_of(gelu)
    looking, (_, table) = with_table(function, [relay.var("y", shape=(COUNT,), dtype="uint8")])
    given = np.random.default_rng(0).integers(0, 255, COUNT, "uint8", endpoint=True)
    values = table.data.numpy()
    np.testing.assert_array_equal(run(lower(looking.body), [values, given]), values[given])


@pytest.mark.parametrize(
    "make",
    [
        lambda value: relay.nn.relu(value) * number(2),
        lambda value: relay.sigmoid(value) * relay.var("factors", shape=(COUNT,)),
        lambda value: relay.reverse(relay.sigmoid(value), 0),
    ],
    ids=["of few steps", "of other tensors", "of places"],
)
def test_other_functions_have_no_table(make: Callable[[relay.Expr], relay.Expr]) -> None:
    function = function_of(lambda value: value)
    body = quantize(make(dequantize(function.params[0], READ)), WRITTEN)
    plain = typed(relay.Function(relay.analysis.free_vars(body), body))
    assert with_table(plain, [])[0] is plain
