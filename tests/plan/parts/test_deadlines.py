"""Deadlines of parts as times of operators."""

from __future__ import annotations

import pytest

from tvm_ios.core.parts import Part
from tvm_ios.errors import OptionError
from tvm_ios.plan.kernel_graph import GraphOperator, GraphTensor, KernelGraph
from tvm_ios.plan.parts.deadlines import due_operators

PARTS = (
    Part(name="a", inputs=("a__x",), outputs=(0, 2)),
    Part(name="b", inputs=("b__x",), outputs=(1,)),
    Part(name="c", inputs=("b__x",), outputs=(3,)),
)


def graph():
    """Two operators; the second writes outputs of two parts, and an input is one of the third."""
    rows = (((0,), (2,)), ((1,), (3, 4)))
    return KernelGraph(
        tensors=(GraphTensor(shape=(4,), dtype="float32"),) * 5,
        operators=tuple(
            GraphOperator(name=f"o{i}", kernel="k", inputs=reads, outputs=writes, flatten=False)
            for i, (reads, writes) in enumerate(rows)
        ),
        inputs=(("a__x", 0), ("b__x", 1)),
        outputs=(2, 3, 4, 1),
    )


def test_an_operator_is_due_with_the_outputs_that_it_writes():
    assert due_operators(graph(), PARTS, {}) == {}
    assert due_operators(graph(), PARTS, {"a": 1.5}) == {0: 1_500_000, 1: 1_500_000}
    assert due_operators(graph(), PARTS, {"a": 1.5, "b": 0.5}) == {0: 1_500_000, 1: 500_000}
    assert due_operators(graph(), PARTS, {"c": 1}) == {}


def test_a_part_that_is_not_there_is_named():
    with pytest.raises(OptionError, match="there is no part 'd'; parts are a, b, c"):
        due_operators(graph(), PARTS, {"d": 1})
    with pytest.raises(OptionError, match="there is no part 'd'; the network is one model"):
        due_operators(graph(), (), {"d": 1})
