import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, operators_of, require_same

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")


@cases(
    where=lambda axis, opset, **_: opset >= 11 or axis is None or axis >= 0,
    op_type=["Softmax", "LogSoftmax"],
    opset=[7, 11, 13],
    axis=[None, 0, 1, 2, -1, -2],
)
def test_softmax(op_type, axis, opset):
    told = {} if axis is None else {"axis": axis}
    model = model_of(op_type, {"x": X}, opset=opset, **told)
    require_same(model, {"x": X}, by=["runtime"], rtol=1e-6, atol=1e-6)
    if opset >= 13:  # the reference goes along one axis in any opset
        require_same(model, {"x": X}, by=["reference"])


def test_old_softmax_of_the_last_axis_is_one_operator():
    made = require_same(model_of("Softmax", {"x": X}, axis=2, opset=11), {"x": X}, by=["runtime"])
    assert operators_of(made) == ["Softmax"]


@pytest.mark.parametrize("opset", [7, 11, 13])
def test_hardmax_compares_places(opset):
    inputs = {"x": np.round(X)}
    by = ["runtime", "reference"] if opset >= 13 else ["runtime"]
    for told in ({}, {"axis": 0}, {"axis": 1}, {"axis": 2}):
        made = require_same(model_of("Hardmax", inputs, opset=opset, **told), inputs, by=by)
        assert "Hardmax" not in operators_of(made)


@cases(
    where=lambda axis, opset, told, **_: (
        opset >= (12 if "select_last_index" in told else 11 if axis < 0 else 7)
    ),
    op_type=["ArgMax", "ArgMin"],
    opset=[7, 11, 12, 13],
    axis=[0, 1, -1],
    told=[{}, {"keepdims": 0}, {"select_last_index": 1}],
)
def test_places_of_extremes(op_type, axis, opset, told):
    inputs = {"x": np.round(X)}
    made = require_same(model_of(op_type, inputs, axis=axis, opset=opset, **told), inputs)
    (node,) = made.graph.node
    assert {each.name for each in node.attribute} == {"axis", "keepdims", "select_last_index"}


@cases(
    where=lambda opset, told, **_: opset >= 11 or not told,
    opset=[7, 10, 11],
    axis=[0, 1, -1],
    told=[{}, {"largest": 0}, {"sorted": 1}],
)
def test_top(axis, opset, told):
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


@cases(
    opset=[11, 14],
    axis=[np.int32(-1), np.int64(1), np.int64(-3)],
    told=[{}, {"exclusive": 1}, {"reverse": 1}],
)
def test_cumulative_sums(axis, told, opset):
    model = model_of("CumSum", {"x": X}, constants={"axis": axis}, opset=opset, **told)
    require_same(model, {"x": X})


@cases(
    axis=[np.int32(-1), np.int64(1), np.int64(-3)],
    exclusive=[0, 1],
    reverse=[0, 1],
    dtype=["int64", "float32"],
)
def test_cumulative_products(axis, exclusive, reverse, dtype):
    inputs = {"x": np.array(X.round(1) * 3, dtype)}
    told = {"exclusive": exclusive, "reverse": reverse}
    model = model_of("CumProd", inputs, constants={"axis": axis}, opset=26, **told)
    require_same(model, inputs, rtol=1e-5 if dtype == "float32" else 0)


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
