"""Layouts changed in front of enlargements: the same values, and fewer bytes that move."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import typed
from tests.stock import stock_outputs
from tvm_ios.relay.dataflow import is_call_of, kernel_calls
from tvm_ios.relay.layouts.image_form import lay_out_small_images

SHAPE = (1, 4, 5, 3)


def enlarged(size: tuple[int, int], **attributes) -> relay.Expr:
    return relay.image.resize2d(relay.var("x", shape=SHAPE), size, layout="NHWC", **attributes)


def moved(value: relay.Expr) -> relay.Expr:
    return relay.nn.relu(relay.layout_transform(value, "NHWC", "NCHW"))


@pytest.mark.parametrize(
    "attributes",
    [
        {"method": "nearest_neighbor", "rounding_method": "floor"},
        {"method": "linear", "coordinate_transformation_mode": "align_corners"},
        {"method": "cubic", "cubic_alpha": -0.75},
    ],
)
def test_the_small_image_is_laid_out_anew(attributes, reference_build):
    mod = typed(moved(enlarged((8, 15), **attributes)))
    found = lay_out_small_images(mod)
    names = [call.op.name for call in kernel_calls(found["main"].body)]
    assert names == ["layout_transform", "image.resize2d", "nn.relu"]
    values = np.random.default_rng(1).uniform(-1, 1, SHAPE).astype("float32")
    ours, theirs = (
        stock_outputs(reference_build(each, None, "llvm -opt-level=0"), x=values)[0]
        for each in (found, mod)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_smaller_image_and_one_with_two_readers_stay():
    for value in (moved(enlarged((2, 2))), relay.nn.relu(enlarged((8, 8)))):
        mod = typed(value)
        assert lay_out_small_images(mod) is mod
    value = enlarged((8, 8))
    twice = relay.add(moved(value), relay.transpose(relay.exp(value), (0, 3, 1, 2)))
    mod = typed(twice)
    assert lay_out_small_images(mod) is mod
    assert any(is_call_of(call, "layout_transform") for call in kernel_calls(mod["main"].body))
