"""Sums, means and variances written as ``einsum``."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import typed
from tests.stock import stock_outputs
from tvm_ios.relay.transforms.norms.sums import as_einsum, reduced_axes

SHAPE = (2, 3, 4)


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
    module = typed(make(relay.var("x", shape=SHAPE)))
    call = module["main"].body
    changed = typed(as_einsum(call, list(call.args)))
    assert changed["main"].ret_type == module["main"].ret_type
    values = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    found = [
        stock_outputs(relay.build(each, "llvm -opt-level=0"), x=values)[0]
        for each in (module, changed)
    ]
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_axes_from_the_end_and_all_others():
    x = relay.var("x", shape=SHAPE)
    assert reduced_axes(typed(relay.sum(x, [-1]))["main"].body) == {2}
    assert reduced_axes(typed(relay.sum(x, [1], exclude=True))["main"].body) == {0, 2}
    assert reduced_axes(typed(relay.sum(x, None))["main"].body) == {0, 1, 2}
