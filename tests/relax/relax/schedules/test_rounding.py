"""Vectors that the processor rounds to bfloat16, beside NumPy's rounding."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, topi

from tests.bfloat16 import nearest, widened
from tests.relax.networks import TARGET
from tvm_ios.host.processor import has_bfloat16
from tvm_ios.relax.schedules import rounding
from tvm_ios.relax.schedules.in_force import scheduled
from tvm_ios.relax.target import resolve_target

ROUNDING = {"kind": "llvm", "mcpu": "cooperlake"}
needs_instruction = pytest.mark.skipif(
    not has_bfloat16(), reason="needs a processor that rounds vectors to bfloat16"
)


def written(shape, function=lambda value: value * 2.0, dtype="float32"):
    """Kernel that makes numbers of bfloat16 of those of its argument."""
    x = te.placeholder(shape, dtype, "x")
    y = te.compute(shape, lambda *place: function(x(*place)), "y")
    return te.create_prim_func([x, topi.cast(y, "bfloat16")])


def bits(kernel, value, target):
    """Result of a kernel with loops of ours, and these loops as text."""
    target = resolve_target(target)
    made = scheduled(kernel, target)
    named = {"main": made.with_attr("global_symbol", "main")}
    library = tvm.tirx.build(tvm.IRModule(named), target=target)
    result = tvm.runtime.empty(value.shape, "bfloat16")
    library["main"](value, result)
    return result.numpy().view("uint16"), made.script()


def numbers(shape):
    """Numbers of all sizes, ties and what is none among them."""
    drawn = np.random.default_rng(0)
    value = drawn.standard_normal(shape, "float32") * 10.0 ** drawn.integers(-30, 30, shape)
    value = value.astype("float32")
    special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1.00390625, 1.01171875, 3.38953e38])
    value.flat[: min(len(special), value.size)] = special[: value.size]
    return value


@needs_instruction
@pytest.mark.parametrize("shape", [(64,), (3, 16), (5, 197), (2, 3, 40), (7,), (1, 1)], ids=str)
def test_numbers_are_the_nearest(shape):
    value = numbers(shape)
    with np.errstate(over="ignore"):
        wanted = nearest(value * np.float32(2))
    found, text = bits(written(shape), tvm.runtime.tensor(value), ROUNDING)
    np.testing.assert_array_equal(found, wanted)
    assert (rounding.NAME in text) == (shape[-1] >= 8)


@needs_instruction
def test_functions_are_arithmetic_before():
    value = np.linspace(-9, 9, 19 * 48, dtype="float32").reshape(19, 48)
    found, text = bits(written(value.shape, te.sigmoid), tvm.runtime.tensor(value), ROUNDING)
    np.testing.assert_allclose(widened(found), 1 / (1 + np.exp(-value)), rtol=2**-8)
    assert rounding.NAME in text


def test_other_processors_round_by_bits():
    value = np.abs(numbers((5, 48)))[1:]
    found, text = bits(written(value.shape), tvm.runtime.tensor(value), TARGET)
    np.testing.assert_array_equal(found, nearest(value * np.float32(2)))
    assert rounding.NAME not in text


@pytest.mark.parametrize("target", [TARGET, ROUNDING], ids=["plain", "rounding"])
def test_what_is_only_moved_stays_as_it_is(target):
    moved = written((4, 48), rounding.widened, "bfloat16")
    text = scheduled(moved, resolve_target(target)).script()
    assert "Cast" not in text
    assert "reinterpret" not in text
