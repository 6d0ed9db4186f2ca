"""Flat axes: how many of the last ones are one loop over memory, with their conditions."""

from __future__ import annotations

import pytest
from tvm import te, tir, topi

from tvm_ios.relay.schedules.flat_axes import (
    extents_of,
    flat_suffix,
    reads_of,
    transposed_suffix,
)

X = te.placeholder((2, 6, 5, 7), name="x")
COUNTS = {
    "activation": (topi.nn.relu(X), 4),
    "factor of channels": (topi.multiply(X, te.placeholder((6, 1, 1))), 2),
    "factor of rows": (topi.multiply(X, te.placeholder((5, 1))), 1),
    "factor of places": (topi.multiply(X, te.placeholder((7,))), 1),
    "rows joined": (topi.nn.relu(topi.reshape(topi.nn.relu(X), (2, 6, 35))), 3),
    "channels moved": (topi.transpose(X, (1, 0, 2, 3)), 2),
    "channels last": (topi.transpose(X, (0, 2, 3, 1)), 0),
    "channels cut": (topi.strided_slice(X, [0, 2, 0, 0], [2, 4, 5, 7]), 3),
    "every second row": (topi.strided_slice(X, [0, 0, 0, 0], [2, 6, 5, 7], [1, 1, 2, 1]), 1),
    "images joined": (topi.concatenate((X, topi.nn.relu(X)), 0), 3),
    "padded rows": (topi.nn.pad(X, (0, 0, 1, 0)), 1),
    "padded places": (topi.nn.pad(X, (0, 0, 0, 1)), 0),
    "backwards": (topi.flip(X, 3), 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_last_axes_that_are_one_loop_over_memory_are_counted(name: str) -> None:
    result, count = COUNTS[name]
    reads = reads_of(result.op)
    assert reads is not None
    assert flat_suffix(result.op.axis, reads) == count


BLOCKED = te.placeholder((2, 3, 5, 7, 16), name="b")
TILES = {
    "channels last": (topi.transpose(te.placeholder((2, 24, 5, 7)), (0, 2, 3, 1)), (2, 1, 0)),
    "channels first": (topi.transpose(te.placeholder((2, 5, 7, 24)), (0, 3, 1, 2)), (1, 2, 0)),
    "blocks": (topi.layout_transform(BLOCKED, "NCHW16c", "NCHW"), (1, 2, 16)),
    "blocks that fill no tile": (
        topi.layout_transform(te.placeholder((1, 7, 5, 7, 22)), "NCHW22c", "NCHW"),
        (1, 2, 22),
    ),
    "too few channels": (topi.transpose(X, (0, 2, 3, 1)), None),
    "columns backwards": (topi.flip(te.placeholder((16, 16)), 1), None),
}


@pytest.mark.parametrize("name", TILES)
def test_rows_that_become_columns_are_found(name: str) -> None:
    result, expected = TILES[name]
    reads = reads_of(result.op)
    assert reads is not None
    tile = transposed_suffix(result.op.axis, reads)
    assert (tile and (tile.rows, tile.lanes, tile.split)) == expected


def test_results_in_memory_of_their_own_are_read_not_computed() -> None:
    first = topi.transpose(X, (0, 2, 3, 1))
    second = topi.nn.relu(first)
    for kept, count in (([first], 4), ([], 0)):
        reads = reads_of(second.op, kept)
        assert reads is not None
        assert flat_suffix(second.op.axis, reads) == count


def test_open_shapes_are_told_apart() -> None:
    rows = tir.Var("rows", "int32")
    assert extents_of((rows, tir.IntImm("int32", 3))) is None
    assert reads_of(topi.nn.relu(te.placeholder((rows, 3))).op) is None
