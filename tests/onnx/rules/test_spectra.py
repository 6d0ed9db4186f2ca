import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, normal_of, operators_of, require_same
from tvm_ios.errors import ModelError

RANDOM = np.random.default_rng(0)
NEAR = {"rtol": 1e-4, "atol": 1e-4}


@cases(
    where=lambda told, parts, **_: parts == 1 or "onesided" not in told,
    opset=[17, 20],
    parts=[1, 2],
    axis=[1, 2, -2],
    length=[None, 4, 9],
    told=[{}, {"inverse": 1}, {"onesided": 1}],
)
def test_transforms(told, length, axis, parts, opset):
    inputs = {"x": RANDOM.standard_normal((2, 6, 7, parts)).astype("float32")}
    constants = {} if length is None else {"length": np.array(length)}
    names = ["x", *constants]
    if opset < 20:
        told = {**told, "axis": axis}
    else:
        constants["axis"] = np.array(axis)
        names = ["x", "length" if length else "", "axis"]
    model = model_of("DFT", inputs, constants=constants, names=names, opset=opset, **told)
    # onnxruntime has no negative axes before opset 20.
    made = require_same(model, inputs, by=["reference"], **NEAR)
    if axis > 0:
        require_same(model, inputs, by=["runtime"], **NEAR)
    assert "DFT" not in operators_of(made)


def test_axis_by_default():
    inputs = {"x": RANDOM.standard_normal((2, 6, 7, 1)).astype("float32")}
    for opset in (17, 20):
        require_same(model_of("DFT", inputs, opset=opset), inputs, **NEAR)


def test_one_side_is_not_inverted():
    inputs = {"x": RANDOM.standard_normal((2, 6, 2)).astype("float32")}
    with pytest.raises(ModelError, match="give both sides"):
        normal_of(model_of("DFT", inputs, opset=17, inverse=1, onesided=1), inputs)


@cases(
    where=lambda one_sided, parts, **_: parts == 1 or not one_sided,
    parts=[1, 2],
    one_sided=[0, 1],
    window=[None, "constant", "at run"],
)
def test_frames(window, one_sided, parts):
    inputs = {"x": RANDOM.standard_normal((2, 40, parts)).astype("float32")}
    constants = {"step": np.array(5), "length": np.array(16)}
    weights = np.hanning(16).astype("float32")
    if window == "constant":
        constants["window"] = weights
    elif window:
        inputs["window"] = weights
    names = ["x", "step", "window" if window else "", "length"]
    told = {"constants": constants, "names": names, "opset": 17, "onesided": one_sided}
    model = model_of("STFT", inputs, **told)
    by = ["runtime", "reference"] if window else ["runtime"]
    made = require_same(model, inputs, by=by, **NEAR)
    assert "Conv" in operators_of(made)


@pytest.mark.parametrize("op_type", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
def test_windows_are_constants(op_type, periodic):
    given = {"size": np.array(9)}
    model = model_of(op_type, {}, constants=given, opset=17, periodic=periodic)
    made = require_same(model, {}, rtol=1e-5, atol=1e-6)
    assert operators_of(made) == ["Identity"]


def test_mel_weights_are_constants():
    given = {
        "bins": np.array(8),
        "length": np.array(16),
        "rate": np.array(8192),
        "lower": np.float32(10),
        "upper": np.float32(4000),
    }
    made = require_same(model_of("MelWeightMatrix", {}, constants=given, opset=17), {}, rtol=1e-6)
    assert operators_of(made) == ["Identity"]
