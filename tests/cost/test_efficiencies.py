"""Efficiencies: classes of operators, rows that answer for others, and the shipped table."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.operator_graphs import CONV
from tvm_ios.core.graph import Operator
from tvm_ios.cost.efficiencies import (
    UNKNOWN,
    Balance,
    Efficiencies,
    Efficiency,
    ShapeClass,
    Size,
    Spread,
    kind_of,
)
from tvm_ios.support.stored_value import UnreadableValueError

USUAL = Spread(faster=1.2, slower=1.3)
READ_IN_PART = ("take", "strided_slice")
"""Kinds that count with all bytes of a tensor of which they read some."""


def operator(flops: int = 0, size: int = 1 << 18, kind: str = "conv2d", **more) -> Operator:
    return Operator(
        name="a", kind=kind, predecessors=(), workload="w", flops=flops, memory_bytes=size, **more
    )


def row(reached: float, kind: str = "conv2d", balance=Balance.COMPUTES, **more) -> Efficiency:
    given = {"size": Size.MEDIUM, "maker": "tvm", "serial": 0.1, "spread": USUAL, "count": 4}
    return Efficiency(kind=kind, balance=balance, reached=reached, **(given | more))


@pytest.mark.parametrize(
    ("flops", "size", "balance", "of_size"),
    [
        (0, 0, Balance.MOVES, Size.TINY),
        (1 << 13, 1 << 13, Balance.MOVES, Size.TINY),
        (1 << 18, 1 << 16, Balance.MIXED, Size.SMALL),
        (1 << 24, 1 << 20, Balance.COMPUTES, Size.MEDIUM),
        (1 << 30, (1 << 20) + 1, Balance.COMPUTES, Size.LARGE),
    ],
)
def test_operators_have_a_class(flops, size, balance, of_size):
    assert ShapeClass.of(operator(flops, size)) == ShapeClass(balance, of_size)


def test_convolutions_with_channels_last_are_a_kind_of_their_own():
    def in_layout(layout: str) -> Operator:
        convolution = replace(CONV, layout=layout)
        return operator(convolution=convolution)

    assert kind_of(in_layout("NHWC/HWIO//float32/float32/float32")) == "conv2d, channels last"
    assert kind_of(in_layout("NCHW16c/OIHW16i16o")) == kind_of(operator()) == "conv2d"


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("conv2d_add_relu_add", "conv2d"),
        ("max_pool2d", "max_pool2d"),
        ("add_relu", "add"),
        ("concatenate_add", "concatenate"),
        ("matmul_divide_where", "matmul"),
        ("relu", "relu"),
        ("transpose_addition", "transpose_addition"),
    ],
)
def test_what_follows_the_first_is_no_other_kind(kind, first):
    assert kind_of(operator(kind=kind)) == first


def test_a_kind_with_channels_last_is_its_kind_where_no_row_tells():
    last = operator(1 << 24, convolution=replace(CONV, layout="NHWC/HWIO//float32/float32/float32"))
    pooled = [row(0.8), row(0.1, kind="dense")]
    assert Efficiencies(pooled).of(last, "tvm") == row(0.8)
    own = row(0.3, kind=kind_of(last))
    assert Efficiencies([*pooled, own]).of(last, "tvm") == own


def test_the_nearest_class_answers():
    table = Efficiencies(
        [
            row(0.8),
            row(0.2, size=Size.LARGE),
            row(0.5, kind="dense"),
            row(0.1, kind="add", balance=Balance.MOVES),
        ]
    )
    medium = 1 << 24
    assert table.of(operator(medium), "tvm") == row(0.8)
    # Its kind in other sizes, the geometric mean.
    assert table.of(operator(medium, 1 << 16), "tvm").reached == pytest.approx(0.4)
    # Another kind of its class.
    other = table.of(operator(medium, kind="einsum"), "tvm")
    assert other.reached == pytest.approx(math.sqrt(0.8 * 0.5))
    assert other.spread.faster > 1.2
    assert other.spread.slower > 1.3
    # Everything the maker has.
    last = table.of(operator(medium, 1 << 10, kind="einsum"), "tvm")
    assert last.count == 16
    assert table.of(operator(), "else").spread == UNKNOWN


def test_a_pool_is_wide_on_the_side_where_its_rows_lie():
    table = Efficiencies([row(0.8, count=9), row(0.02, size=Size.LARGE, count=1)])
    pooled = table.of(operator(1 << 24, 1 << 16), "tvm").spread
    assert pooled.slower > 2.5
    assert pooled.faster < 1.6


def test_idle_lanes_take_what_is_not_serial():
    assert [row(0.5, serial=0).speedup(lanes) for lanes in (1, 2, 16)] == [1, 2, 16]
    assert row(0.5, serial=1).speedup(16) == 1
    assert row(0.5, serial=0.5).speedup(2) == pytest.approx(4 / 3)


def test_counts_weigh():
    table = Efficiencies([row(0.8, count=3), row(0.2, size=Size.LARGE, count=1)])
    pooled = table.of(operator(1 << 24, 1 << 16), "tvm")
    assert pooled.reached == pytest.approx(0.8**0.75 * 0.2**0.25)


def test_a_table_is_written_and_read_strictly():
    rows = (row(0.8), row(0.3, maker="onednn"))
    text = Efficiencies(rows).to_json({"command": "none"})
    assert len(text.splitlines()) == 5
    assert Efficiencies.from_json(text).rows == rows
    with pytest.raises(UnreadableValueError, match=r"rows\[0\]\.size is 'huge'"):
        Efficiencies.from_json(text.replace('"medium"', '"huge"', 1))


@pytest.mark.parametrize("dialect", ["relay", "relax"])
def test_a_shipped_table_is_sound(dialect):
    rows = Efficiencies.shipped(dialect).rows
    assert {"tvm", "onednn"} <= {each.maker for each in rows}
    assert len({(each.kind, each.balance, each.size, each.maker) for each in rows}) == len(rows)
    for each in rows:
        # A bound that is exceeded is one of caches: a small operator's data lie in the first.
        assert 0 < each.reached < 4 or each.kind in READ_IN_PART, each
        assert 0 <= each.serial <= 1, each
        assert min(each.spread.faster, each.spread.slower) >= 1, each
        assert each.count > 0, each
