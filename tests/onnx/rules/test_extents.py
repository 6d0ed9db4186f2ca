import numpy as np
import pytest
from onnx import helper

from tests.onnx.cases import cases
from tests.onnx.forms import graph_of, model_of, normal_of, operators_of, require_same
from tvm_ios.errors import ModelError

X = np.random.default_rng(0).standard_normal((2, 1, 3, 4)).astype("float32")
EMPTY = np.zeros((2, 0, 3), "float32")


def of_ints(op_type, inputs, opset, name, numbers, **attributes):
    """A model of one node that has whole numbers as an attribute, or as an input since opset 13."""
    if opset < 13:
        attributes = attributes if numbers is None else {name: numbers, **attributes}
        return model_of(op_type, inputs, opset=opset, **attributes)
    constants = None if numbers is None else {name: np.array(numbers, "int64")}
    return model_of(op_type, inputs, constants=constants, opset=opset, **attributes)


@pytest.mark.parametrize("opset", [7, 14, 23])
@pytest.mark.parametrize("shape", [[2, 12], [-1], [0, -1, 2], [0, 0, 3, 4], [24, 1]])
def test_reshape_tells_all_extents(shape, opset):
    model = model_of("Reshape", {"x": X}, constants={"shape": np.array(shape)}, opset=opset)
    require_same(model, {"x": X})


@pytest.mark.parametrize(("shape", "whole"), [([0, 5], 1), ([3, 1, 0, 2], 1), ([2, 0, 3], 0)])
def test_reshape_of_nothing(shape, whole):
    given = {"shape": np.array(shape)}
    model = model_of("Reshape", {"x": EMPTY}, constants=given, allowzero=whole)
    require_same(model, {"x": EMPTY})


def test_shape_that_only_the_run_tells_is_refused():
    inputs = {"x": X, "shape": np.array([24])}
    with pytest.raises(ModelError, match="takes a shape"):
        normal_of(model_of("Reshape", inputs), inputs)


@cases(
    where=lambda axis, opset: opset >= 11 or axis >= 0,
    opset=[7, 11, 23],
    axis=[0, 1, 3, 4, -1, -4],
)
def test_flatten_is_a_reshape(axis, opset):
    made = require_same(model_of("Flatten", {"x": X}, axis=axis, opset=opset), {"x": X})
    assert operators_of(made) == ["Reshape"]


@cases(
    where=lambda axes, opset: opset >= 11 or axes != [-3],
    opset=[7, 11, 13, 23],
    axes=[None, [1], [-3]],
)
def test_squeeze_is_a_reshape(axes, opset):
    made = require_same(of_ints("Squeeze", {"x": X}, opset, "axes", axes), {"x": X})
    assert operators_of(made) == ["Reshape"]


@cases(
    where=lambda axes, opset: opset >= 11 or min(axes) >= 0,
    opset=[7, 11, 13, 23],
    axes=[[0], [4, 0], [2, 3], [-1, 1]],
)
def test_unsqueeze_is_a_reshape(axes, opset):
    # The reference takes axes in the order they come before opset 13.
    by = ["runtime"] if axes == [4, 0] and opset < 13 else ["runtime", "reference"]
    made = require_same(of_ints("Unsqueeze", {"x": X}, opset, "axes", axes), {"x": X}, by=by)
    assert operators_of(made) == ["Reshape"]


def test_of_reshapes_in_a_row_one_is_left():
    from onnx import helper

    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("Unsqueeze", ["flat", "axes"], ["more"]),
        helper.make_node("Squeeze", ["more", "axes"], ["y"]),
    ]
    made = require_same(graph_of(nodes, {"x": X}, ["y"], constants={"axes": [1]}), {"x": X})
    assert operators_of(made) == ["Reshape"]
    nodes[0] = helper.make_node("Identity", ["x"], ["flat"])
    made = require_same(graph_of(nodes, {"x": X}, ["y"], constants={"axes": [2]}), {"x": X})
    assert operators_of(made) == ["Identity"]


@pytest.mark.parametrize("opset", [8, 13])
@pytest.mark.parametrize("shape", [[3, 1], [5, 2, 7, 3, 4], [1], [2, 1, 3, 4]])
def test_expand_tells_the_extents_of_its_result(shape, opset):
    model = model_of("Expand", {"x": X}, constants={"shape": np.array(shape)}, opset=opset)
    made = require_same(model, {"x": X})
    whole = np.broadcast_shapes(X.shape, shape) == X.shape
    assert operators_of(made) == ["Identity" if whole else "Expand"]


@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize(
    "repeats", [[1, 1, 1, 1], [1, 5, 1, 1], [2, 3, 1, 2], [3, 1, 1, 1], [1, 1, 0, 1]]
)
def test_tile_expands_new_axes(repeats, opset):
    model = model_of("Tile", {"x": X}, constants={"repeats": np.array(repeats)}, opset=opset)
    made = require_same(model, {"x": X})
    assert set(operators_of(made)) <= {"Reshape", "Expand", "Identity"}


@pytest.mark.parametrize("value", [None, np.array([7], "int64"), np.array([2.5], "float32")])
@pytest.mark.parametrize("opset", [9, 23])
def test_constant_of_shape_is_a_constant(value, opset):
    from onnx import numpy_helper

    told = {} if value is None else {"value": numpy_helper.from_array(value)}
    model = model_of(
        "ConstantOfShape", {}, constants={"shape": np.array([2, 3])}, opset=opset, **told
    )
    assert operators_of(require_same(model, {})) == ["Identity"]


@pytest.mark.parametrize(
    "bounds",
    [(np.int64(0), np.int64(7), np.int64(2)), (np.int32(5), np.int32(-4), np.int32(-3))]
    + [tuple(map(np.float32, each)) for each in [(0.5, 3.1, 0.1), (3, -1, -0.7), (2, 1, 1)]],
)
def test_range_is_a_constant(bounds):
    constants = dict(zip(("begin", "limit", "step"), bounds, strict=True))
    model = model_of("Range", {}, constants=constants, opset=11)
    require_same(model, {}, rtol=1e-6)  # runtimes add the step again and again


def test_range_of_numbers_along_an_axis():
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "zero", "one"], ["limit"]),
        helper.make_node("Range", ["zero", "limit", "one"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "one": np.array([1])}
    model = graph_of(nodes, {"x": X}, ["y"], constants=constants, opset=13)
    require_same(model, {"x": X}, by=["runtime"])  # the reference wants scalars


def test_what_has_no_elements_is_a_constant():
    given = {"repeats": np.array([1, 1, 0, 1])}
    made = require_same(model_of("Tile", {"x": X}, constants=given), {"x": X})
    assert operators_of(made) == ["Identity"]
