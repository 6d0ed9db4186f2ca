import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.onnx.cases import cases
from tests.onnx.forms import graph_of, model_of, normal_of, operators_of, require_same
from tvm_ios.errors import ModelError

X = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")


@pytest.mark.parametrize("opset", [7, 14, 23])
def test_copies_are_what_they_copy(opset):
    nodes = [
        helper.make_node("Identity", ["x"], ["copy"]),
        helper.make_node("Relu", ["copy"], ["y"]),
    ]
    made = require_same(graph_of(nodes, {"x": X}, ["y"], opset=opset), {"x": X})
    assert operators_of(made) == ["Relu"]


@pytest.mark.parametrize("opset", [7, 10, 12, 13, 22])
@pytest.mark.parametrize("outputs", [1, 2])
def test_nothing_is_dropped(outputs, opset):
    model = model_of("Dropout", {"x": X}, opset=opset, outputs=outputs)
    # Before opset 12, onnxruntime's masks say that nothing is left.
    made = require_same(model, {"x": X}, by=["runtime"] if outputs == 1 or opset >= 12 else [])
    assert set(operators_of(made)) == {"Identity"}


@pytest.mark.parametrize("training", [np.array(True), None])
def test_dropping_is_refused(training):
    inputs = {"x": X} if training is not None else {"x": X, "training": np.array(False)}
    constants = {"ratio": np.float32(0.5)} | ({} if training is None else {"training": training})
    names = ["x", "ratio", "training"]
    model = model_of("Dropout", inputs, constants=constants, names=names)
    with pytest.raises(ModelError, match="export the model for inference"):
        normal_of(model, inputs)


@cases(
    where=lambda told, opset: opset >= 15 or not told,
    opset=[7, 15, 23],
    told=[
        {},
        {"start": 1},
        {"end": 0},
        {"end": -1},
        {"start": -9, "end": 9},
        {"start": 2, "end": 1},
    ],
)
def test_extents_are_constants(told, opset):
    made = require_same(model_of("Shape", {"x": X}, opset=opset, **told), {"x": X})
    assert operators_of(made) == ["Identity"]


@pytest.mark.parametrize("opset", [7, 23])
def test_counts_are_constants(opset):
    made = require_same(model_of("Size", {"x": X}, opset=opset), {"x": X})
    assert operators_of(made) == ["Identity"]


@pytest.mark.parametrize("opset", [9, 22])
@pytest.mark.parametrize("told", [{}, {"k": -1}, {"k": 2}, {"k": 9}, {"dtype": TensorProto.INT64}])
def test_diagonals_are_constants(told, opset):
    made = require_same(model_of("EyeLike", {"x": X}, opset=opset, **told), {"x": X})
    assert operators_of(made) == ["Identity"]


@pytest.mark.parametrize(("op_type", "outputs"), [("NonZero", 1), ("Unique", 4)])
def test_places_in_constants_are_constants(op_type, outputs):
    given = {"x": np.array([2, 0, 1, 2])}
    made = require_same(model_of(op_type, {}, constants=given, opset=13, outputs=outputs), {})
    assert set(operators_of(made)) == {"Identity"}


def test_functions_without_all_of_their_outputs_are_written_out():
    heads = {name: np.stack([X, -X])[None] for name in ("q", "k", "v")}
    require_same(model_of("Attention", heads, opset=23), heads, rtol=1e-5, atol=1e-6)
