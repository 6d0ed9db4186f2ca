"""Steps of products in front of reshapes: they fuse with the products, and give the same."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import evaluated, typed
from tvm_ios.relay.dataflow import is_call_of, kernel_calls
from tvm_ios.relay.prepare import prepare
from tvm_ios.relay.transforms.products.late_reshapes import reshape_after_steps
from tvm_ios.support.exact_bits import exact_bits

BATCH, ROWS, DEPTH, COLUMNS = 2, 5, 7, 6
SEQUENCE = (BATCH, ROWS, COLUMNS)


def variable(name, *shape):
    return relay.var(name, shape=shape)


def product():
    """A product of all rows of a sequence, as TVM's importer writes a linear layer."""
    rows = relay.reshape(variable("x", BATCH, ROWS, DEPTH), (-1, DEPTH))
    return relay.nn.dense(rows, variable("w", COLUMNS, DEPTH))


def linear(*shape):
    return relay.reshape(product(), shape or SEQUENCE)


def scores():
    pairs = [variable(name, 6, ROWS, DEPTH) for name in ("x", "w")]
    return relay.reshape(relay.nn.batch_matmul(*pairs), (2, 3, ROWS, ROWS))


def gelu(value):
    return value * (relay.const(0.5) + relay.const(0.5) * relay.erf(value * relay.const(0.5**0.5)))


def last_operators(module, count):
    calls = kernel_calls(module["main"].body)
    return [each.op.name for each in calls[-count:]]


MOVED = {
    "bias": lambda: linear() + variable("b", COLUMNS),
    "bias with ones": lambda: variable("b", 1, 1, COLUMNS) + linear(),
    "bias_add": lambda: relay.nn.bias_add(linear(), variable("b", COLUMNS), axis=2),
    "one number": lambda: linear() / variable("b", 1, 1, 1),
    "residual": lambda: linear() + variable("y", *SEQUENCE),
    "clip": lambda: relay.clip(linear(), -0.5, 0.5),
    "GELU": lambda: gelu(linear() + variable("b", COLUMNS)),
    "twice reshaped": lambda: relay.nn.relu(
        relay.reshape(relay.squeeze(linear(1, *SEQUENCE), [0]) + variable("b", COLUMNS), SEQUENCE)
    ),
    "heads": lambda: linear(BATCH, ROWS, 2, 3) * relay.const(0.25),
    "scale of scores": lambda: scores() / relay.const(8.0),
    "causal scores": lambda: scores() + variable("y", 2, 3, ROWS, ROWS),
}
KEPT = {
    "rows of their own": lambda: linear() + variable("b", ROWS, 1),
    "one position for all": lambda: linear() + variable("b", 1, ROWS, COLUMNS),
    "bias of another axis": lambda: relay.nn.bias_add(linear(), variable("b", ROWS), axis=1),
    "bias of heads": lambda: linear(BATCH, ROWS, 2, 3) + variable("b", 3),
    "mask of a batch": lambda: scores() + variable("b", 2, 1, 1, ROWS),
    "divisor of a column": lambda: linear() / variable("b", COLUMNS),
    "widened": lambda: linear(1, BATCH * ROWS, COLUMNS) + variable("y", 3, 1, COLUMNS),
    "other operators": lambda: relay.sqrt(linear()),
}


@pytest.mark.parametrize("name", MOVED)
def test_steps_come_before_the_reshape(name):
    moved = reshape_after_steps(typed(MOVED[name]()))
    *_, last = last_operators(moved, 1)
    assert last == "reshape"


@pytest.mark.slow
@pytest.mark.parametrize("name", MOVED)
def test_steps_before_the_reshape_give_the_same_bits(name):
    module = typed(MOVED[name]())
    moved = reshape_after_steps(module)
    np.testing.assert_array_equal(evaluated(moved), evaluated(module))


@pytest.mark.parametrize("name", KEPT)
def test_what_does_not_broadcast_alike_stays(name):
    module = typed(KEPT[name]())
    assert reshape_after_steps(module) is module


def test_a_step_of_two_products_takes_both_as_they_are():
    other = relay.nn.dense(variable("y", BATCH * ROWS, DEPTH), variable("v", COLUMNS, DEPTH))
    module = typed(linear() + relay.reshape(other, SEQUENCE))
    moved = reshape_after_steps(module)
    assert last_operators(moved, 3) == ["nn.dense", "add", "reshape"]
    np.testing.assert_array_equal(evaluated(moved), evaluated(module))


def test_a_value_that_others_read_keeps_its_shape():
    value = linear() + variable("b", COLUMNS)
    module = typed(relay.Tuple([gelu(value), relay.mean(value, axis=1)]))
    moved = reshape_after_steps(module)
    first, second = moved["main"].body.fields
    assert is_call_of(first, "reshape")
    assert is_call_of(second.args[0], "reshape")


@pytest.mark.parametrize("square", [lambda x: relay.power(x, relay.const(2.0)), lambda x: x * x])
def test_the_square_of_a_norm_stays_with_its_sum(square):
    """The value itself is read by others: the square is no step of the product."""
    value = linear() + variable("r", *SEQUENCE)
    mean = relay.mean(square(value), -1, keepdims=True)
    module = reshape_after_steps(typed(value * relay.rsqrt(mean)))
    names = [each.op.name for each in kernel_calls(module["main"].body)]
    place = names.index("mean")
    assert names[place - 1] in ("power", "multiply")
    assert names[place - 2] == "reshape"
    assert names.index("add") < place - 2


@pytest.mark.slow
@pytest.mark.parametrize("exact", [False, True])
def test_bias_and_activation_are_in_the_kernel_of_their_product(exact):
    module = typed(relay.reshape(gelu(linear() + variable("b", COLUMNS)), (-1, COLUMNS)))
    params = {"w": np.ones((COLUMNS, DEPTH), "float32"), "b": np.ones(COLUMNS, "float32")}
    with exact_bits(exact):
        prepared = prepare(module, params, "llvm")
    bodies = [str(each.op) for each in kernel_calls(prepared.module["main"].body)]
    together = [body for body in bodies if "dense" in body and "erf" in body]
    assert len(together) == (not exact)
