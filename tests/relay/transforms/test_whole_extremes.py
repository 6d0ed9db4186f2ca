"""Extremes of whole tensors: of elements in any order, and of nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm
from tvm import relay

from tests.relay_modules import typed
from tvm_ios.relay.transforms.whole_extremes import with_extremes_of_any_order


def blocked(channels: int) -> relay.Expr:
    """Images in blocks of 16 channels, in the layout of the model."""
    value = relay.var("x", shape=(1, 2, 5, 7, 16))
    made = relay.layout_transform(value, "NCHW16c", "NCHW")
    return relay.strided_slice(made, [0, 0], [1, channels], [1, 1], axes=[0, 1])


@pytest.mark.parametrize("reduce", [relay.max, relay.min])
def test_extremes_of_all_elements_read_them_where_they_lie(
    reduce: Callable[..., relay.Expr],
) -> None:
    value = relay.var("x", shape=(1, 2, 5, 7, 16))
    turned = relay.transpose(relay.layout_transform(value, "NCHW16c", "NCHW"), (1, 0, 2, 3))
    made = with_extremes_of_any_order(typed(reduce(relay.reshape(turned, (-1,)))))
    tvm.ir.assert_structural_equal(made, typed(reduce(value)))


@pytest.mark.parametrize(
    "result",
    [
        relay.max(blocked(30)),
        relay.max(relay.transpose(relay.var("x", shape=(3, 4))), 0),
        relay.sum(relay.transpose(relay.var("x", shape=(3, 4)))),
    ],
    ids=["some of the elements", "one axis", "another reduction"],
)
def test_other_reductions_stay(result: relay.Expr) -> None:
    module = typed(result)
    assert with_extremes_of_any_order(module) is module
