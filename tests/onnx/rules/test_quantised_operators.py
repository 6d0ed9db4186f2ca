"""Operators on whole numbers become those on numbers, and differ by one quantum at most."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.onnx.cases import cases
from tests.onnx.forms import normal_of, operators_of, outputs_of

RNG = np.random.default_rng(0)
SCALE, ZERO = np.float32(0.03), np.uint8(120)


def whole(*shape, dtype="uint8"):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max, shape).astype(dtype)


def model(op_type, inputs, constants, names, *, domain="", **attributes):
    node = helper.make_node(op_type, names, ["y"], name="node", domain=domain, **attributes)
    kinds = {key: helper.np_dtype_to_tensor_dtype(value.dtype) for key, value in inputs.items()}
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(key, kinds[key], inputs[key].shape) for key in inputs],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
    )
    graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=8)


def require_near(made, inputs):
    (wanted,) = outputs_of(made, inputs, by="runtime")
    normal = normal_of(made, inputs)
    assert not any(node.domain for node in normal.graph.node)
    (found,) = outputs_of(normal, inputs, by="runtime")
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert np.abs(found.astype("int32") - wanted.astype("int32")).max() <= 1
    return operators_of(normal)


@cases(
    bias=[True, False],
    channels=[1, 4],
    attributes=[{}, {"pads": [1] * 4}, {"auto_pad": "SAME_UPPER"}],
)
def test_convolutions(bias, channels, attributes):
    constants = {
        "xs": SCALE,
        "xz": ZERO,
        "w": whole(4, 3, 3, 3, dtype="int8"),
        "ws": RNG.uniform(0.01, 0.03, channels).astype("float32"),
        "wz": np.zeros(channels, "int8"),
        "ys": np.float32(0.2),
        "yz": ZERO,
    }
    if channels == 1:
        constants |= {"ws": np.float32(0.02), "wz": np.int8(3)}
    if bias:
        constants["b"] = RNG.integers(-1000, 1000, 4).astype("int32")
    names = ["x", *constants]
    inputs = {"x": whole(1, 3, 6, 5)}
    found = require_near(model("QLinearConv", inputs, constants, names, **attributes), inputs)
    assert found[-2:] == ["Conv", "QuantizeLinear"]


@pytest.mark.parametrize("columns", [(), (5,)])
def test_products(columns):
    inputs = {"a": whole(2, 3, 4), "b": whole(4, 5)}
    constants = {
        "as": SCALE,
        "az": ZERO,
        "bs": RNG.uniform(0.01, 0.03, columns).astype("float32"),
        "bz": np.full(columns, 7, "uint8"),
        "ys": np.float32(0.2),
        "yz": ZERO,
    }
    names = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    found = require_near(model("QLinearMatMul", inputs, constants, names), inputs)
    assert found == ["DequantizeLinear", "DequantizeLinear", "MatMul", "QuantizeLinear"]


STEP = {"as": SCALE, "az": ZERO, "ys": np.float32(0.05), "yz": np.uint8(100)}
ONE = ["a", "as", "az", "ys", "yz"]


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("QLinearAveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1] * 4, "channels_last": 1}),
        ("QLinearGlobalAveragePool", {"channels_last": 0}),
        ("QLinearGlobalAveragePool", {"channels_last": 1}),
        ("QLinearLeakyRelu", {"alpha": 0.2}),
        ("QLinearSigmoid", {}),
        ("QLinearSoftmax", {"axis": 1, "opset": 11}),
        ("QLinearSoftmax", {"axis": 1, "opset": 13}),
    ],
)
def test_operators_of_one_input(op_type, attributes):
    inputs = {"a": whole(2, 4, 6, 5)}
    constants = dict(STEP)
    if op_type in ("QLinearSigmoid", "QLinearSoftmax"):
        constants |= {"ys": np.float32(1 / 256), "yz": np.uint8(0)}
    made = model(op_type, inputs, constants, ONE, domain="com.microsoft", **attributes)
    require_near(made, inputs)


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (4,), (3, 1)])
def test_operators_of_two_inputs(op_type, shape):
    inputs = {"a": whole(2, 3, 4), "b": whole(*shape)}
    names = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    constants = {**STEP, "bs": np.float32(0.02), "bz": np.uint8(9)}
    require_near(model(op_type, inputs, constants, names, domain="com.microsoft"), inputs)


def test_one_of_two_numbers():
    inputs = {"c": RNG.random((2, 3, 4)) < 0.5, "a": whole(2, 3, 4), "b": whole(3, 1)}
    names = ["c", "a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    constants = {**STEP, "bs": np.float32(0.02), "bz": np.uint8(9)}
    made = model("QLinearWhere", inputs, constants, names, domain="com.microsoft")
    assert require_near(made, inputs)[-2:] == ["Where", "QuantizeLinear"]


def test_tensors_one_behind_the_other():
    inputs = {"a": whole(2, 3), "b": whole(2, 5)}
    constants = {**STEP, "bs": np.float32(0.02), "bz": np.uint8(9)}
    names = ["ys", "yz", "a", "as", "az", "b", "bs", "bz"]
    made = model("QLinearConcat", inputs, constants, names, domain="com.microsoft", axis=1)
    require_near(made, inputs)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("columns", [(), (5,)])
def test_products_with_a_bias(transposed, columns):
    inputs = {"a": whole(3, 4), "b": whole(*((5, 4) if transposed else (4, 5)))}
    constants = {
        **STEP,
        "bs": np.full(columns, 0.02, "float32"),
        "bz": np.full(columns, 9, "uint8"),
        "c": RNG.integers(-1000, 1000, 5).astype("int32"),
    }
    names = ["a", "as", "az", "b", "bs", "bz", "c", "ys", "yz"]
    made = model(
        "QGemm", inputs, constants, names, domain="com.microsoft", transB=transposed, alpha=0.5
    )
    require_near(made, inputs)


def test_scales_in_half_precision_do_not_round_the_sums():
    scale = np.array([0.03], "float16")
    inputs = {"a": whole(2, 64)}
    constants = {"as": scale, "az": np.uint8([120]), "b": whole(64, 3), "bs": scale}
    constants |= {"bz": np.uint8([120]), "ys": np.array([0.1], "float16"), "yz": np.uint8([100])}
    names = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    sums = (inputs["a"].astype(int) - 120) @ (constants["b"].astype(int) - 120)
    wanted = np.clip(
        np.rint(sums * (float(scale[0]) ** 2 / float(constants["ys"][0]))) + 100, 0, 255
    )
    given = model("QLinearMatMul", inputs, constants, names)
    given.opset_import[0].version = 21
    made = normal_of(given, inputs)
    found = outputs_of(made, inputs, by="reference")[0].astype(int)
    assert np.abs(found - wanted).max() <= 1
