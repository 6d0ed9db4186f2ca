"""Whole vectors: marked loops are split, with what is left over behind them; others stay."""

from __future__ import annotations

import pytest
import tvm
from tvm import te, tir, topi

from tvm_ios.relay.schedules.whole_vectors import mark, whole_vectors


def lowered(extent: int, *, marked: bool = True) -> tir.PrimFunc:
    source = te.placeholder((extent,), name="x")
    result = topi.nn.relu(source)
    schedule = te.create_schedule(result.op)
    if marked:
        mark(schedule[result], result.op.axis[0])
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, whole_vectors)]}):
        return tvm.lower(schedule, [source, result])["main"]


def lanes_of(function: tir.PrimFunc) -> list[int]:
    """Numbers of elements that each statement stores."""
    stores: list[int] = []

    def note(node: object) -> None:
        if isinstance(node, tir.BufferStore):
            index = node.indices[0]
            stores.append(int(index.lanes) if isinstance(index, tir.Ramp) else 1)

    tir.stmt_functor.post_order_visit(function.body, note)
    return stores


@pytest.mark.parametrize(
    ("extent", "lanes"), [(64, [16]), (70, [16, 16]), (33, [16, 16]), (9, [9]), (1, [1])]
)
def test_a_loop_becomes_vectors_of_which_the_last_overlaps(extent: int, lanes: list[int]) -> None:
    assert lanes_of(lowered(extent)) == lanes


def test_loops_without_mark_stay() -> None:
    assert lanes_of(lowered(64, marked=False)) == [1]
    plain = tvm.IRModule({"main": lowered(64, marked=False)})
    tvm.ir.assert_structural_equal(whole_vectors(plain), plain)
