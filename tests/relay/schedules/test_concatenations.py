"""Concatenations: right on every axis, in vectors with what follows, and without copies."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay.schedules.kernel import is_vectorised, lower, run


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def joined(arrays: list[np.ndarray], axis: int) -> relay.Expr:
    pieces = [relay.var(f"x{i}", shape=array.shape) for i, array in enumerate(arrays)]
    return relay.concatenate(pieces, axis)


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        ([(1, 3, 7, 7), (1, 5, 7, 7)], 1),
        ([(2, 3, 7, 7), (2, 5, 7, 7), (2, 1, 7, 7)], -3),
        ([(1, 2, 5, 7, 16), (1, 1, 5, 7, 16)], 1),
        ([(3, 5, 9), (3, 5, 7)], 2),
        ([(4, 9), (3, 9)], 0),
        ([(4, 19), (3, 19)], 0),
        pytest.param([(1, 2, 6, 6)] * 9, 1, marks=pytest.mark.slow),
        ([(2, 3, 24), (2, 3, 44), (2, 3, 1)], 2),
        ([(3, 1, 5), (3, 2, 5)], 1),
        ([(7,), (20,)], 0),
    ],
)
def test_pieces_of_every_shape_are_joined(shapes: list[tuple[int, ...]], axis: int) -> None:
    arrays = [random(*shape) for shape in shapes]
    expected = np.concatenate(arrays, axis)
    np.testing.assert_array_equal(run(lower(joined(arrays, axis)), arrays), expected)
    after = relay.nn.relu(joined(arrays, axis)) + relay.const(1.0)
    np.testing.assert_array_equal(run(lower(after), arrays), np.maximum(expected, 0) + 1)
    before = relay.concatenate(
        [relay.nn.relu(relay.var(f"x{i}", shape=shape)) for i, shape in enumerate(shapes)], axis
    )
    np.testing.assert_array_equal(run(lower(before), arrays), np.maximum(expected, 0))


def test_channels_are_joined_and_activated_without_a_copy() -> None:
    arrays = [random(1, 8, 7, 7), random(1, 8, 7, 7)]
    kernel = lower(relay.nn.relu(joined(arrays, 1)))
    assert is_vectorised(kernel)
    found: list[object] = []
    tvm.tir.stmt_functor.post_order_visit(kernel.function.body, found.append)
    assert not any(isinstance(each, tvm.tir.Allocate) for each in found)


def test_transposed_pieces_are_joined() -> None:
    data = random(1, 5, 6, 4)
    moved = relay.transpose(relay.var("x", shape=data.shape), (0, 3, 1, 2))
    kernel = lower(relay.concatenate([moved, relay.nn.relu(moved)], 1))
    turned = data.transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(
        run(kernel, [data]), np.concatenate([turned, np.maximum(turned, 0)], 1)
    )


def test_ragged_rows_are_joined_and_activated_in_vectors_without_a_copy() -> None:
    arrays = [random(1, 3, 3, 24), random(1, 3, 3, 44)]
    kernel = lower(relay.nn.relu(joined(arrays, 3)))
    assert is_vectorised(kernel)
    code = kernel.function.script()
    assert "if_then_else" not in code
    assert "allocate" not in code.lower()
