"""Loops of row kernels: split over lanes, in vectors, with dear functions computed once."""

from __future__ import annotations

import tvm
from tvm import relay, tir

from tests.relay.row_kernels.norm_cases import TARGET, typed
from tvm_ios.relay.row_kernels.kernel import row_kernel


def parts(result, kind):
    kernel = row_kernel(typed(result), TARGET)
    found = []
    tir.stmt_functor.post_order_visit(kernel.body, found.append)
    return [each for each in found if isinstance(each, kind)]


def exponentials(result):
    return [
        call
        for call in parts(result, tir.Call)
        if isinstance(call.op, tvm.ir.Op) and call.op.name == "tir.exp"
    ]


def test_rows_are_split_over_lanes():
    loops = parts(relay.nn.softmax(relay.var("x", shape=(24, 64))), tir.For)
    parallel = [loop for loop in loops if loop.kind == tir.ForKind.PARALLEL]
    assert [int(loop.extent) for loop in parallel] == [24]


def test_exponentials_are_vectors_and_computed_once():
    (found,) = exponentials(relay.nn.softmax(relay.var("x", shape=(8, 16))))
    assert found.dtype == "float32x16"


def test_a_vector_across_rows_where_the_innermost_axis_is_kept():
    x = relay.var("x", shape=(1, 24, 8, 8))
    stores = parts(relay.nn.softmax(x, axis=1), tir.BufferStore)
    assert all(store.value.dtype.endswith("x16") for store in stores)
