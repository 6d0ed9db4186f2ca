"""Tiles: whole ones through registers, what fills none element by element."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay, tir

from tests.relay.schedules.kernel import lower, run


def shuffles_of(function: tir.PrimFunc) -> int:
    found: list[object] = []
    tir.stmt_functor.post_order_visit(function.body, found.append)
    return sum(isinstance(each, tir.Shuffle) for each in found)


@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (16, 40), (9, 8), (17, 35)])
def test_a_tile_takes_two_shuffles_for_each_pair_and_bit(rows: int, columns: int) -> None:
    kernel = lower(relay.transpose(relay.var("x", shape=(rows, columns))))
    assert shuffles_of(kernel.function) == 8 * 3


@pytest.mark.parametrize(("rows", "columns"), [(7, 40), (3, 3)])
def test_less_than_a_tile_is_left_to_tvm(rows: int, columns: int) -> None:
    assert not shuffles_of(lower(relay.transpose(relay.var("x", shape=(rows, columns)))).function)


@pytest.mark.parametrize(("block", "blocks"), [(12, 2), (22, 3), (11, 1)])
@pytest.mark.parametrize("extents", [(3, 3), (5, 7), (1, 9)])
def test_channels_that_fill_no_tile_are_blocked_and_back(
    block: int, blocks: int, extents: tuple[int, int]
) -> None:
    data = np.random.default_rng(block).normal(size=(2, block * blocks, *extents)).astype("float32")
    blocked = data.reshape(2, blocks, block, *extents).transpose(0, 1, 3, 4, 2)
    there = relay.layout_transform(relay.var("x", shape=data.shape), "NCHW", f"NCHW{block}c")
    np.testing.assert_array_equal(run(lower(there), [data]), blocked)
    back = lower(
        relay.layout_transform(relay.var("x", shape=blocked.shape), f"NCHW{block}c", "NCHW")
    )
    np.testing.assert_array_equal(run(back, [np.ascontiguousarray(blocked)]), data)
    assert shuffles_of(back.function) == 8 * 3


def test_the_same_tile_is_named_alike_each_time() -> None:
    value = relay.transpose(relay.var("x", shape=(17, 35)))
    first, second = lower(value), lower(value)
    assert first.code == second.code
    tvm.ir.assert_structural_equal(first.function.body, second.function.body, True)


def test_two_tensors_of_one_shape_are_two() -> None:
    one, two = (np.random.default_rng(n).normal(size=(16, 24)).astype("float32") for n in (1, 2))
    x, y = (relay.transpose(relay.var(name, shape=(16, 24))) for name in "xy")
    np.testing.assert_array_equal(run(lower(x - y), [one, two]), (one - two).T)


def test_pieces_that_become_columns_are_read_only_where_they_are() -> None:
    """Kernels of selective networks: two blocked branches, side by side along an axis of theirs."""
    data = [
        np.random.default_rng(n).normal(size=(1, 2, 6, 6, 16)).astype("float32") for n in (1, 2)
    ]
    plain = [
        relay.expand_dims(
            relay.layout_transform(relay.var(f"x{n}", shape=each.shape), "NCHW16c", "NCHW"), 1
        )
        for n, each in enumerate(data)
    ]
    kernel = lower(relay.concatenate(plain, 1))
    assert not shuffles_of(kernel.function)
    unblocked = [each.transpose(0, 1, 4, 2, 3).reshape(1, 1, 32, 6, 6) for each in data]
    np.testing.assert_array_equal(run(kernel, data), np.concatenate(unblocked, 1))
