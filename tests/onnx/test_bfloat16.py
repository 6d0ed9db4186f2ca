"""Models in bfloat16 are computed in float32, and rounded where they cast to bfloat16."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.onnx.forms import normal_of, outputs_of, parsed

RNG = np.random.default_rng(0)


def to_bfloat16(values):
    return np.asarray(values, ml_dtypes.bfloat16)


def wide(values):
    return np.asarray(values, "float32")


def compared(model, inputs, **tolerance):
    """The outputs by onnx's reference, of bfloat16, and those of the normal form, of float32."""
    wanted = outputs_of(model, inputs, by="reference")
    given = {
        name: wide(each) if each.dtype == ml_dtypes.bfloat16 else each
        for name, each in inputs.items()
    }
    made = normal_of(model, given)
    types = {value.type.tensor_type.elem_type for value in (*made.graph.input, *made.graph.output)}
    assert TensorProto.BFLOAT16 not in types
    for one, other in zip(outputs_of(made, given, by="reference"), wanted, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, wide(other), **tolerance)
    return made


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1e-40, 1.00390625, 1.01171875]


@pytest.mark.parametrize("source", ["float", "double", "int64"])
def test_casts_round_to_even(source):
    values = np.concatenate([1e3 * RNG.standard_normal(1000), SPECIAL])
    if source == "int64":
        values = RNG.integers(-(2**30), 2**30, 1000)
    dtype = {"float": "float32", "double": "float64"}.get(source, source)
    model = parsed(f"g ({source}[{len(values)}] x) => (bfloat16[n] y) {{ y = Cast<to = 16>(x) }}")
    compared(model, {"x": values.astype(dtype)}, rtol=0, atol=0)


def test_networks_are_computed_in_float32():
    weight = helper.make_tensor("w", TensorProto.BFLOAT16, [4, 6], RNG.standard_normal(24))
    model = parsed(
        """g (bfloat16[2,3,4] x) => (bfloat16[2,3,6] y)
           { p = MatMul(x, w)
             one = Constant<value = bfloat16 {1}>()
             s = Add(p, one)
             y = Softmax(s) }"""
    )
    model.graph.initializer.append(weight)
    inputs = {"x": to_bfloat16(RNG.standard_normal((2, 3, 4)))}
    compared(model, inputs, rtol=2e-2, atol=1e-2)


def test_branches_are_widened():
    model = parsed(
        """g (bool c, bfloat16[3] x) => (bfloat16[3] y)
           { y = If(c) <
               then_branch = t () => (bfloat16[3] a)
                 { two = Constant<value = bfloat16 {2}>()
                   a = Mul(x, two) },
               else_branch = e () => (bfloat16[3] b) { b = Neg(x) } > }"""
    )
    inputs = {"c": np.array(True), "x": to_bfloat16([1, 2, 3])}
    compared(model, inputs, rtol=0, atol=0)


def test_constants_of_this_type():
    zeros = onnx.helper.make_tensor("value", TensorProto.BFLOAT16, [1], [2.5])
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["c"], value=zeros),
        helper.make_node("EyeLike", ["x"], ["e"], dtype=TensorProto.BFLOAT16),
        helper.make_node("Add", ["c", "e"], ["y"]),
    ]
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [3, 3])
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [3, 3])],
        [shape],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    compared(model, {"x": np.zeros((3, 3), "float32")}, rtol=0, atol=0)
