"""Tiles: whole ones through registers, what fills none element by element."""

from __future__ import annotations

import pytest
import tvm
from tvm import relay, tir

from tests.relay.schedules.kernel import lower


def shuffles_of(function: tir.PrimFunc) -> int:
    found: list[object] = []
    tir.stmt_functor.post_order_visit(function.body, found.append)
    return sum(isinstance(each, tir.Shuffle) for each in found)


@pytest.mark.parametrize(("rows", "columns"), [(8, 8), (16, 40), (9, 8), (17, 35)])
def test_a_tile_takes_two_shuffles_for_each_pair_and_bit(rows: int, columns: int) -> None:
    kernel = lower(relay.transpose(relay.var("x", shape=(rows, columns))))
    assert shuffles_of(kernel.function) == 8 * 3


@pytest.mark.parametrize(("rows", "columns"), [(7, 40), (40, 7), (3, 3)])
def test_less_than_a_tile_is_left_to_tvm(rows: int, columns: int) -> None:
    assert not shuffles_of(lower(relay.transpose(relay.var("x", shape=(rows, columns)))).function)


def test_the_same_tile_is_named_alike_each_time() -> None:
    value = relay.transpose(relay.var("x", shape=(17, 35)))
    first, second = lower(value), lower(value)
    assert first.code == second.code
    tvm.ir.assert_structural_equal(first.function.body, second.function.body, True)
