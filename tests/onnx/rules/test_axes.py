import numpy as np
import pytest

from tests.onnx.forms import model_of, operators_of, require_same

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1, -2])
def test_softmax(op_type, axis, opset):
    if axis is not None and axis < 0 and opset < 11:
        pytest.skip("the opset has no negative axes")
    told = {} if axis is None else {"axis": axis}
    model = model_of(op_type, {"x": X}, opset=opset, **told)
    require_same(model, {"x": X}, by=["runtime"], rtol=1e-6, atol=1e-6)
    if opset >= 13:  # the reference goes along one axis in any opset
        require_same(model, {"x": X}, by=["reference"])


def test_old_softmax_of_the_last_axis_is_one_operator():
    made = require_same(model_of("Softmax", {"x": X}, axis=2, opset=11), {"x": X}, by=["runtime"])
    assert operators_of(made) == ["Softmax"]


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
def test_hardmax_compares_places(axis, opset):
    inputs = {"x": np.round(X)}
    told = {} if axis is None else {"axis": axis}
    model = model_of("Hardmax", inputs, opset=opset, **told)
    made = require_same(model, inputs, by=["runtime", "reference"] if opset >= 13 else ["runtime"])
    assert "Hardmax" not in operators_of(made)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("opset", [7, 11, 12, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("told", [{}, {"keepdims": 0}, {"select_last_index": 1}])
def test_places_of_extremes(op_type, axis, opset, told):
    if (axis < 0 and opset < 11) or (opset < 12 and "select_last_index" in told):
        pytest.skip("the opset does not know it")
    inputs = {"x": np.round(X)}
    made = require_same(model_of(op_type, inputs, axis=axis, opset=opset, **told), inputs)
    (node,) = made.graph.node
    assert {each.name for each in node.attribute} == {"axis", "keepdims", "select_last_index"}


@pytest.mark.parametrize("opset", [7, 10, 11])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("told", [{}, {"largest": 0}, {"sorted": 1}])
def test_top(axis, opset, told):
    if opset < 11 and told:
        pytest.skip("the opset has no such attribute")
    constants = {} if opset < 10 else {"k": np.array([2])}
    told = {**told, "axis": axis} | ({"k": 2} if opset < 10 else {})
    model = model_of("TopK", {"x": X}, constants=constants, opset=opset, outputs=2, **told)
    require_same(model, {"x": X})


def test_top_in_any_order_is_in_order():
    given = {"k": np.array([3])}
    model = model_of("TopK", {"x": X}, constants=given, outputs=2, sorted=0)
    made = require_same(model, {"x": X}, by=[])
    (node,) = made.graph.node
    assert {each.name: each.i for each in node.attribute} == {"axis": 2, "largest": 1, "sorted": 1}


@pytest.mark.parametrize("opset", [11, 14])
@pytest.mark.parametrize("axis", [np.int32(-1), np.int64(1), np.int64(-3)])
@pytest.mark.parametrize("told", [{}, {"exclusive": 1}, {"reverse": 1}])
def test_cumulative_sums(axis, told, opset):
    model = model_of("CumSum", {"x": X}, constants={"axis": axis}, opset=opset, **told)
    require_same(model, {"x": X})


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("diagonal", [None, 0, 1, -2, 9])
def test_triangles(upper, diagonal):
    constants = {} if diagonal is None else {"k": np.array(diagonal)}
    model = model_of("Trilu", {"x": X}, constants=constants, upper=upper, opset=14)
    require_same(model, {"x": X})
    if diagonal is not None:
        inputs = {"x": X, "k": np.array(diagonal)}
        require_same(model_of("Trilu", inputs, upper=upper, opset=14), inputs)


@pytest.mark.parametrize("op_type", ["Softmax", "Hardmax"])
def test_nothing_stays_nothing(op_type):
    inputs = {"x": np.zeros((2, 0), "float32")}
    made = require_same(model_of(op_type, inputs, opset=13), inputs, by=["runtime"])
    assert operators_of(made) == ["Identity"]


def test_place_of_a_single_number():
    inputs = {"x": np.array(3, "float32")}
    require_same(model_of("ArgMax", inputs, opset=7), inputs, by=["runtime"])
