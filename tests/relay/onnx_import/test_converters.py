"""Operators that TVM's importer gets wrong compute what onnx's reference does, or are refused."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.relay.onnx_import.one_input import assert_as_the_reference, model, refused


@pytest.mark.parametrize("opset", [11, 17])
@pytest.mark.parametrize(
    "bounds", [{"low": 0.1}, {"high": 0.1}, {"low": -0.1, "high": 0.1}, {"low": 0.1, "high": -0.1}]
)
def test_one_bound_is_enough(bounds, opset):
    inputs = ["x", *(name if name in bounds else "" for name in ("low", "high"))]
    weights = {name: np.array(value, "float32") for name, value in bounds.items()}
    node = helper.make_node("Clip", inputs, ["y"])
    assert_as_the_reference(model(node, weights=weights, opset=opset))


def test_pooling_by_a_norm_refuses_what_runtimes_differ_in():
    apart = helper.make_node(
        "LpPool", ["x"], ["y"], kernel_shape=[1, 1], strides=[3, 3], auto_pad="SAME_UPPER"
    )
    assert "(LpPool) has auto_pad=SAME_UPPER with strides above kernel_shape" in refused(
        model(apart)
    )
    rounded = helper.make_node(
        "LpPool", ["x"], ["y"], kernel_shape=[2, 2], auto_pad="VALID", ceil_mode=1
    )
    assert "(LpPool) has auto_pad=VALID" in refused(model(rounded, opset=18))
