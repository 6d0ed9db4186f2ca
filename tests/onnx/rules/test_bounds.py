import numpy as np
import pytest

from tests.onnx.forms import model_of, operators_of, outputs_of, require_same

X = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")


@pytest.mark.parametrize("bounds", [{"min": -0.5}, {"max": 0.25}, {"min": -0.5, "max": 0.5}, {}])
@pytest.mark.parametrize("opset", [7, 11, 21])
def test_bounds_are_kept_one_by_one(bounds, opset):
    given = {name: np.float32(value) for name, value in bounds.items()}
    if opset < 11:
        model = model_of("Clip", {"x": X}, opset=opset, **bounds)
    else:
        names = ["x", *(name if name in given else "" for name in ("min", "max"))]
        model = model_of("Clip", {"x": X}, constants=given, names=names, opset=opset)
    require_same(model, {"x": X})


def test_bounds_that_cross_give_the_upper_one():
    bounds = {"min": np.float32(1), "max": np.float32(-1)}
    made = require_same(model_of("Clip", {"x": X}, constants=bounds), {"x": X})
    assert operators_of(made) == ["Max", "Min"]


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("names", [["low"], ["high"], ["low", "high"]])
def test_bounds_that_the_run_tells(names, opset):
    inputs = {"x": X, "low": np.array(-0.3, "float32"), "high": np.array(0.4, "float32")}
    inputs = {name: inputs[name] for name in ["x", *names]}
    order = ["x", *(name if name in names else "" for name in ("low", "high"))]
    require_same(model_of("Clip", inputs, names=order, opset=opset), inputs)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float64"])
@pytest.mark.parametrize("opset", [12, 13])
def test_bounds_of_other_types(dtype, opset):
    inputs = {"x": np.arange(12).reshape(3, 4).astype(dtype)}
    for bounds in ({"min": 3, "max": 7}, {"min": 3}):
        given = {name: np.array(bound, dtype) for name, bound in bounds.items()}
        require_same(model_of("Clip", inputs, constants=given, opset=opset), inputs)


def test_old_bounds_of_half_precision_are_infinite():
    inputs = {"x": np.array([-np.inf, 1, np.inf], "float16")}
    made = require_same(model_of("Clip", inputs, opset=7, min=0.0), inputs, by=[])
    (found,) = outputs_of(made, inputs, by="reference")
    assert found.tolist() == [0, 1, np.inf]


def test_what_is_no_number_stays_none():
    # Without an upper bound, infinity is the greatest finite number in onnxruntime alone.
    inputs = {"x": np.array([np.nan, 3, -np.inf], "float32")}
    for bounds in ({"min": -1, "max": 1}, {"min": -1}):
        given = {name: np.float32(bound) for name, bound in bounds.items()}
        require_same(model_of("Clip", inputs, constants=given), inputs)
