"""A few long rows, split over lanes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay, tir

from tests.relay.row_kernels.norm_cases import TARGET, inputs, normed, run, softmax, typed
from tvm_ios.relay.row_kernels.few_rows import parts_of_rows
from tvm_ios.relay.row_kernels.kernel import row_kernel
from tvm_ios.relay.row_kernels.merging import with_long_axes
from tvm_ios.relay.row_kernels.reader import read_computation


def parts(shape):
    function = typed(relay.nn.softmax(relay.var("x", shape=shape)))
    return parts_of_rows(with_long_axes(read_computation(function, TARGET)))


def test_rows_are_split_where_they_are_few_and_long():
    assert parts((1, 1 << 15)) == 16
    assert parts((2, 3 << 14)) == 16
    assert parts((1, 1000003)) == 1
    assert parts((8, 1 << 15)) == 1
    assert parts((1, 1 << 14)) == 1


@pytest.mark.parametrize("shape", [(1, 64, 28, 28), (3, 7, 75, 75), (1, 5, 101, 97)], ids=str)
def test_a_norm_of_whole_images(shape):
    x, scale = relay.var("x", shape=shape), relay.var("scale", shape=(shape[1], 1, 1))
    off = x - relay.mean(x, [1, 2, 3], keepdims=True)
    variance = relay.mean(off * off, [1, 2, 3], keepdims=True)
    function = typed(off / relay.sqrt(variance + relay.const(1e-5)) * scale)
    arrays = inputs(function)
    expected = normed(arrays[0].astype("float64"), (1, 2, 3)) * arrays[1]
    np.testing.assert_allclose(run(function, arrays), expected, atol=1e-5)


def test_softmax_of_long_rows_with_nan_in_one():
    function = typed(relay.nn.softmax(relay.var("x", shape=(2, 49152))))
    arrays = inputs(function)
    arrays[0][1, 40000] = np.nan
    found = run(function, arrays)
    np.testing.assert_allclose(found[0], softmax(arrays[0][0].astype("float64")), rtol=1e-5)
    assert np.isnan(found[1]).all()


def test_every_pass_is_a_parallel_loop():
    kernel = row_kernel(typed(relay.nn.softmax(relay.var("x", shape=(1, 1 << 15)))), TARGET)
    assert isinstance(kernel, tvm.tir.PrimFunc)
    found: list[object] = []
    tir.stmt_functor.post_order_visit(kernel.body, found.append)
    loops = [each for each in found if isinstance(each, tir.For)]
    parallel = [int(each.extent) for each in loops if each.kind == tir.ForKind.PARALLEL]
    assert parallel == [16, 16, 16]
