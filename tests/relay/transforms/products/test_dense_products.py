"""``nn.matmul`` with all flags: dense products with the same result."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import evaluated, random_arrays, typed
from tvm_ios.relay.dataflow import kernel_calls
from tvm_ios.relay.prepare import prepare
from tvm_ios.relay.transforms.products.dense_products import multiply_by_dense
from tvm_ios.support.exact_bits import exact_bits


def product(transpose_a: bool, transpose_b: bool) -> tvm.IRModule:
    shapes = [(5, 3) if transpose_a else (3, 5), (4, 5) if transpose_b else (5, 4)]
    sides = [relay.var(name, shape=shape) for name, shape in zip("xy", shapes, strict=True)]
    body = relay.nn.matmul(*sides, transpose_a=transpose_a, transpose_b=transpose_b)
    return typed(relay.Function(sides, relay.nn.relu(body)))


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_all_flags_are_products_of_the_same_matrices(transpose_a, transpose_b):
    module = multiply_by_dense(product(transpose_a, transpose_b))
    names = [call.op.name for call in kernel_calls(module["main"].body)]
    assert "nn.dense" in names
    assert names.count("transpose") == transpose_a + (not transpose_b)
    x, y = random_arrays(module["main"])
    wanted = (x.T if transpose_a else x) @ (y.T if transpose_b else y)
    np.testing.assert_allclose(evaluated(module), np.maximum(wanted, 0), atol=1e-5)


def test_modules_without_such_a_product_are_returned():
    module = multiply_by_dense(product(False, True))
    assert multiply_by_dense(module) is module


@pytest.mark.parametrize("exact", [False, True])
def test_the_kernel_of_stock_tvm_stays_where_its_bits_are_wanted(exact):
    with exact_bits(exact):
        prepared = prepare(product(False, False), None, "llvm")
    assert ("nn.matmul" in prepared.as_text()) == exact
