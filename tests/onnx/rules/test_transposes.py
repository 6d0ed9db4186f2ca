import numpy as np
import pytest
from onnx import helper

from tests.onnx.cases import cases
from tests.onnx.forms import graph_of, model_of, normal_of, operators_of, outputs_of, require_same

X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype("float32")


@pytest.mark.parametrize("opset", [7, 23])
@pytest.mark.parametrize("order", [None, [0, 2, 1, 3], [3, 0, 2, 1], [0, 1, 2, 3]])
def test_transpose(order, opset):
    told = {} if order is None else {"perm": order}
    made = require_same(model_of("Transpose", {"x": X}, opset=opset, **told), {"x": X})
    assert operators_of(made) == ["Identity" if order == [0, 1, 2, 3] else "Transpose"]


def test_axes_of_one_are_reshaped():
    inputs = {"x": X[:, :1, :, :1]}
    made = require_same(model_of("Transpose", inputs, perm=[0, 2, 3, 1]), inputs)
    assert operators_of(made) == ["Reshape"]


@pytest.mark.parametrize("second", [[0, 3, 1, 2], [1, 3, 2, 0]])
def test_two_orders_are_one(second):
    nodes = [
        helper.make_node("Transpose", ["x"], ["moved"], perm=[0, 2, 3, 1]),
        helper.make_node("Transpose", ["moved"], ["y"], perm=second),
    ]
    made = require_same(graph_of(nodes, {"x": X}, ["y"]), {"x": X})
    assert operators_of(made) == ["Identity" if second == [0, 3, 1, 2] else "Transpose"]


@cases(
    where=lambda mode, opset: opset >= 11 or not mode,
    opset=[7, 11, 13],
    mode=[None, "DCR", "CRD"],
)
def test_depth_to_space(mode, opset):
    inputs = {"x": np.random.default_rng(0).standard_normal((2, 12, 3, 4)).astype("float32")}
    told = {} if mode is None else {"mode": mode}
    made = require_same(model_of("DepthToSpace", inputs, blocksize=2, opset=opset, **told), inputs)
    assert operators_of(made) == ["Reshape", "Transpose", "Reshape"]


@pytest.mark.parametrize("opset", [7, 13])
def test_space_to_depth(opset):
    inputs = {"x": np.random.default_rng(0).standard_normal((2, 3, 4, 6)).astype("float32")}
    made = require_same(model_of("SpaceToDepth", inputs, blocksize=2, opset=opset), inputs)
    assert operators_of(made) == ["Reshape", "Transpose", "Reshape"]


def test_space_to_depth_with_channels_first():
    x = np.arange(48, dtype="float32").reshape((1, 2, 4, 6))
    model = model_of("SpaceToDepth", {"x": x}, blocksize=2, mode="CRD", opset=28)
    (found,) = outputs_of(normal_of(model, {"x": x}), {"x": x}, by="reference")
    # onnx's reference and onnxruntime have no such mode yet.
    back = model_of("DepthToSpace", {"y": found}, blocksize=2, mode="CRD", opset=13)
    np.testing.assert_array_equal(outputs_of(back, {"y": found}, by="reference")[0], x)
