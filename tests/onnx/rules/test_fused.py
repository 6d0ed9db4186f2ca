"""Operators that onnxruntime fuses compute what they are fused from."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.onnx.forms import normal_of, outputs_of

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


CASES = [
    ("FusedConv", [normal(1, 2, 5, 5), normal(3, 2, 3, 3), normal(3)], {"activation": "Relu"}),
    (
        "FusedConv",
        [normal(1, 2, 5, 5), normal(3, 2, 3, 3), normal(3), normal(1, 3, 3, 3)],
        {"activation": "LeakyRelu", "activation_params": [0.3]},
    ),
    (
        "FusedGemm",
        [normal(3, 4), normal(5, 4), normal(5)],
        {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1, "alpha": 0.5},
    ),
    ("FusedMatMul", [normal(2, 3, 4), normal(2, 5, 4)], {"transB": 1, "alpha": 0.5}),
    ("FusedMatMul", [normal(2, 4, 3), normal(2, 4, 5)], {"transA": 1}),
    ("Gelu", [normal(3, 4)], {}),
    ("BiasGelu", [normal(3, 4), normal(4)], {}),
    ("FastGelu", [normal(3, 4), normal(4)], {}),
    ("QuickGelu", [normal(3, 4)], {"alpha": 1.5}),
    ("SkipLayerNormalization", [normal(2, 3, 4), normal(2, 3, 4), normal(4), normal(4)], {}),
    (
        "Attention",
        [normal(2, 3, 8), normal(8, 24), normal(24), np.array([[1, 1, 0], [1, 1, 1]], "int32")],
        {"num_heads": 2},
    ),
]


@pytest.mark.parametrize(("op_type", "values", "attributes"), CASES)
def test_fused_operators(op_type, values, attributes):
    inputs = {f"x{place}": value for place, value in enumerate(values)}
    node = helper.make_node(op_type, list(inputs), ["y"], domain="com.microsoft", **attributes)
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in inputs.items()
    ]
    made = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "graph", given, made)
    model = helper.make_model(graph, opset_imports=sets, ir_version=8)
    (wanted,) = outputs_of(model, inputs, by="runtime")
    normal_form = normal_of(model, inputs)
    assert not any(each.domain for each in normal_form.graph.node)
    (found,) = outputs_of(normal_form, inputs, by="runtime")
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
