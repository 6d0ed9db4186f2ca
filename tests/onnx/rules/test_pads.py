import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, operators_of, require_same

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
CASES = [
    [0, 0, 0, 0, 0, 0],
    [0, 1, 2, 0, 0, 1],
    [1, 0, 0, 0, 2, 0],
    [0, -1, 2, 0, 0, -1],
    [0, 0, -1, 0, -2, 0],
    [0, -1, -3, 1, -1, 2],
]


def padded(pads, opset, mode, *, value=None, axes=None, inputs=None):
    """A model that pads, in the form of an opset."""
    inputs = inputs or {"x": X}
    if opset < 11:
        told = {} if value is None else {"value": float(value)}
        return model_of("Pad", inputs, pads=pads, mode=mode, opset=opset, **told)
    constants = {"pads": np.array(pads, "int64")}
    constants |= {} if value is None else {"value": value}
    constants |= {} if axes is None else {"axes": np.array(axes)}
    names = ["x", "pads", "" if value is None else "value", *(["axes"] if axes else [])]
    return model_of("Pad", inputs, constants=constants, names=names, mode=mode, opset=opset)


@cases(opset=[7, 11, 18, 23], value=[None, np.float32(-2.5)], pads=CASES)
def test_pads_of_a_number(pads, value, opset):
    # onnx's reference adds no negative pads.
    by = ["runtime"] if min(pads) < 0 else ["runtime", "reference"]
    made = require_same(padded(pads, opset, "constant", value=value), {"x": X}, by=by)
    if not any(pads):
        assert operators_of(made) == ["Identity"]


@cases(opset=[7, 11, 18, 23], mode=["edge", "reflect"], pads=CASES[:5])
def test_pads_of_what_is_there(pads, mode, opset):
    by = ["runtime"] if min(pads) < 0 else ["runtime", "reference"]
    require_same(padded(pads, opset, mode), {"x": X}, by=by)


@pytest.mark.parametrize("opset", [19, 23])
@pytest.mark.parametrize("pads", CASES[:3])
def test_repeated_data_is_gathered(pads, opset):
    made = require_same(padded(pads, opset, "wrap"), {"x": X})
    assert "Pad" not in operators_of(made)


def test_mirrors_of_more_than_there_is_are_gathered():
    model = padded([0, 0, 9, 0, 5, 0], 21, "reflect")
    made = require_same(model, {"x": X}, by=["reference"])  # onnxruntime reads outside
    assert operators_of(made) == ["Gather", "Gather"]


@cases(opset=[18, 23], mode=["constant", "edge", "reflect"], axes=[[1], [-1], [2, 0], [-2, 2]])
def test_pads_of_some_axes(axes, mode, opset):
    pads = [1] * len(axes) + [0] * len(axes)
    require_same(padded(pads, opset, mode, axes=axes), {"x": X})


@pytest.mark.parametrize("dtype", ["int32", "int64", "float64", "bool"])
def test_pads_of_other_types(dtype):
    inputs = {"x": X.astype(dtype)}
    model = padded([0, 1, 2, 0, 0, 1], 21, "constant", value=np.array(1, dtype), inputs=inputs)
    require_same(model, inputs)


@pytest.mark.parametrize("pads", CASES)
def test_number_that_the_run_tells(pads):
    inputs = {"x": X, "value": np.array(3.5, "float32")}
    constants = {"pads": np.array(pads, "int64")}
    model = model_of("Pad", inputs, constants=constants, names=["x", "pads", "value"])
    require_same(model, inputs, by=["runtime"] if min(pads) < 0 else ["runtime", "reference"])
