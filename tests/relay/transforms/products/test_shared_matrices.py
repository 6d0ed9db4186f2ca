"""Products of a batch with one matrix: one product of all rows, with the same result."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests import relay_modules
from tvm_ios.relay.dataflow import graph_order, is_call_of
from tvm_ios.relay.prepare import prepare
from tvm_ios.relay.transforms.products.shared_matrices import multiply_rows_at_once

BATCH, ROWS, DEPTH, COLUMNS = 5, 3, 8, 6


def linear(x, weights):
    """What TVM's importer makes of PyTorch's ``linear`` on a sequence."""
    batch, rows, depth = x.type_annotation.shape
    columns = weights.type_annotation.shape[0]
    repeated = relay.broadcast_to(relay.transpose(weights, (1, 0)), (batch, depth, columns))
    left = relay.reshape(relay.broadcast_to(x, (batch, rows, depth)), (-1, rows, depth))
    right = relay.reshape(repeated, (-1, depth, columns))
    return relay.nn.batch_matmul(left, right, transpose_b=False)


def counts(module):
    order = graph_order(module["main"].body)
    return tuple(
        sum(is_call_of(each, name) for each in order) for name in ("nn.batch_matmul", "nn.dense")
    )


def typed(body, *parameters):
    return relay_modules.typed(relay.Function(list(parameters), body))


def values(module, **arrays):
    """What TVM's interpreter gives for a module whose products nobody has touched."""
    return relay.create_executor("debug", mod=module).evaluate()(**arrays).numpy()


@pytest.fixture
def x():
    return relay.var("x", shape=(BATCH, ROWS, DEPTH))


@pytest.fixture
def w():
    return relay.var("w", shape=(COLUMNS, DEPTH))


@pytest.mark.parametrize(
    ("right", "transposed"),
    [
        (lambda w: relay.broadcast_to(w, (BATCH, COLUMNS, DEPTH)), True),
        (lambda w: relay.repeat(relay.expand_dims(w, 0), BATCH, 0), True),
        (
            lambda w: relay.broadcast_to(
                relay.transpose(relay.nn.relu(w), (1, 0)), (BATCH, DEPTH, COLUMNS)
            ),
            False,
        ),
    ],
    ids=["broadcast", "repeat", "computed"],
)
def test_copies_of_a_matrix_are_one(x, w, right, transposed):
    before = typed(relay.nn.batch_matmul(x, right(w), transpose_b=transposed), x, w)
    after = multiply_rows_at_once(before)
    assert counts(after) == (0, 1)
    assert after["main"].checked_type == before["main"].checked_type
    draw = np.random.default_rng(0).standard_normal
    arrays = {
        "x": draw((BATCH, ROWS, DEPTH)).astype("float32"),
        "w": draw((COLUMNS, DEPTH)).astype("float32"),
    }
    np.testing.assert_allclose(
        values(after, **arrays), values(before, **arrays), rtol=1e-5, atol=1e-5
    )


def test_whole_numbers_keep_the_type_of_their_sums(w):
    x = relay.var("x", shape=(BATCH, ROWS, DEPTH), dtype="int8")
    weights = relay.broadcast_to(relay.cast(w, "int8"), (BATCH, COLUMNS, DEPTH))
    after = multiply_rows_at_once(typed(relay.nn.batch_matmul(x, weights, out_dtype="int32"), x, w))
    assert counts(after) == (0, 1)
    assert after["main"].ret_type.dtype == "int32"


@pytest.mark.parametrize(
    "body",
    [
        lambda x, w: relay.nn.batch_matmul(x, relay.tile(w, (BATCH, 2, 1))),
        lambda x, w: relay.nn.batch_matmul(
            x, relay.reshape(w, (1, COLUMNS, DEPTH)) + relay.sum(x, axis=(1, 2), keepdims=True)
        ),
        lambda x, w: relay.nn.batch_matmul(
            relay.strided_slice(x, (0, 0, 0), (1, ROWS, DEPTH)),
            relay.reshape(relay.nn.relu(w), (1, COLUMNS, DEPTH)),
        ),
        lambda x, w: relay.nn.batch_matmul(
            relay.transpose(x, (0, 2, 1)),
            relay.broadcast_to(w, (BATCH, COLUMNS, DEPTH)),
            transpose_a=True,
        ),
        lambda x, w: relay.nn.batch_matmul(
            x, relay.broadcast_to(relay.sum(w, axis=0, keepdims=True), (BATCH, COLUMNS, DEPTH))
        ),
    ],
    ids=["tiles", "one each", "one of one, computed", "left is turned", "rows are copies"],
)
def test_others_stay(x, w, body):
    before = typed(body(x, w), x, w)
    assert multiply_rows_at_once(before) is before


@pytest.mark.slow
def test_weights_of_a_sequence_are_kept_once(x, w):
    weights = np.random.default_rng(1).standard_normal((COLUMNS, DEPTH)).astype("float32")
    module = typed(linear(x, w), x, w)
    prepared = prepare(module, {"w": weights}, "llvm")
    assert all(
        each.data.numpy().size <= COLUMNS * DEPTH
        for each in graph_order(prepared.module["main"].body)
        if isinstance(each, relay.Constant)
    )
    image = np.random.default_rng(2).standard_normal((BATCH, ROWS, DEPTH)).astype("float32")
    expected = image.astype("float64") @ weights.T.astype("float64")
    np.testing.assert_allclose(values(prepared.module, x=image), expected, rtol=1e-5, atol=1e-5)
