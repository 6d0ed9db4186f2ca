"""Sums, means and variances written as ``einsum``."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.stock import stock_executor
from tvm_ios.relay.transforms.norms.sums import as_einsum, reduced_axes

SHAPE = (2, 3, 4)


def typed(result):
    function = relay.Function(relay.analysis.free_vars(result), result)
    return relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]


@pytest.mark.parametrize(
    "make",
    [
        lambda x: relay.mean(x, [-1], keepdims=True),
        lambda x: relay.mean(x, [0, 2]),
        lambda x: relay.sum(x, None),
        lambda x: relay.sum(x, [1], exclude=True),
        lambda x: relay.variance(x, [2], keepdims=True, unbiased=True),
    ],
)
def test_a_sum_has_the_same_value_and_shape(make):
    function = typed(make(relay.var("x", shape=SHAPE)))
    call = function.body
    changed = typed(as_einsum(call, list(call.args)))
    assert changed.ret_type == function.ret_type
    values = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    found = []
    for each in (function, changed):
        executor = stock_executor(relay.build(tvm.IRModule.from_expr(each), "llvm -opt-level=0"))
        executor.set_input("x", values)
        executor.run()
        found.append(executor.get_output(0).numpy())
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_axes_from_the_end_and_all_others():
    x = relay.var("x", shape=SHAPE)
    assert reduced_axes(typed(relay.sum(x, [-1])).body) == {2}
    assert reduced_axes(typed(relay.sum(x, [1], exclude=True)).body) == {0, 2}
    assert reduced_axes(typed(relay.sum(x, None)).body) == {0, 1, 2}
