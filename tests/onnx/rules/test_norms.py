import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, normal_of, operators_of, outputs_of, require_same
from tvm_ios.errors import ModelError

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((2, 6, 5, 4)).astype("float32")
NEAR = {"rtol": 1e-5, "atol": 1e-5}


def parameters(shape, *names):
    return {name: (RANDOM.random(shape) + 0.5).astype("float32") for name in names}


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("shape", [(2, 6, 5, 4), (2, 6), (2, 6, 5)])
def test_batch_normalization(shape, opset):
    inputs = {"x": RANDOM.standard_normal(shape).astype("float32")}
    given = parameters(6, "scale", "bias", "mean", "variance")
    told = {"epsilon": 1e-3}
    model = model_of("BatchNormalization", inputs, constants=given, opset=opset, **told)
    # The reference trains in opsets before 14.
    by = ["runtime", "reference"] if opset >= 14 else ["runtime"]
    made = require_same(model, inputs, by=by, **NEAR)
    assert operators_of(made) == ["Mul", "Add"]
    inputs |= given
    model = model_of("BatchNormalization", inputs, opset=opset, **told)
    require_same(model, inputs, by=by, **NEAR)


def test_old_batch_normalization_of_each_place():
    given = parameters((6, 5, 4), "scale", "bias", "mean", "variance")
    model = model_of("BatchNormalization", {"x": X}, constants=given, opset=7, spatial=0)
    require_same(model, {"x": X}, by=["runtime"], **NEAR)


@pytest.mark.parametrize("shape", [(2, 6, 5, 4), (3, 6)])
@pytest.mark.parametrize("opset", [14, 15])
def test_batch_normalization_by_its_batch(opset, shape):
    given = parameters(6, "scale", "bias", "mean", "variance")
    inputs = {"x": RANDOM.standard_normal(shape).astype("float32")}
    told = {"training_mode": 1, "momentum": 0.7, "epsilon": 1e-3, "outputs": 3}
    model = model_of("BatchNormalization", inputs, constants=given, opset=opset, **told)
    require_same(model, inputs, **NEAR)


def test_old_training_is_refused():
    given = parameters(6, "scale", "bias", "mean", "variance")
    model = model_of("BatchNormalization", {"x": X}, constants=given, opset=9, outputs=5)
    with pytest.raises(ModelError, match="export the model for inference"):
        normal_of(model, {"x": X})


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("shape", [(2, 6, 5, 4), (2, 6, 5)])
def test_instance_normalization(shape, opset):
    inputs = {"x": RANDOM.standard_normal(shape).astype("float32"), **parameters(6, "s", "b")}
    model = model_of("InstanceNormalization", inputs, opset=opset, epsilon=1e-3)
    require_same(model, inputs, **NEAR)


def test_group_normalization():
    inputs = {"x": X, **parameters(6, "s", "b")}
    model = model_of("GroupNormalization", inputs, opset=21, epsilon=1e-3, num_groups=3)
    made = require_same(model, inputs, **NEAR)
    assert "GroupNormalization" not in operators_of(made)


def test_old_group_normalization_is_scaled_by_group():
    """Opset 18 deprecated at once what it defined, so that no runtime runs it."""
    inputs = {"x": X, "s": np.array([1, 2, 3], "float32"), "b": np.array([0, 1, 2], "float32")}
    old = model_of("GroupNormalization", inputs, opset=18, epsilon=1e-3, num_groups=3)
    many = {"x": X, **{name: np.repeat(inputs[name], 2) for name in ("s", "b")}}
    new = model_of("GroupNormalization", many, opset=21, epsilon=1e-3, num_groups=3)
    (wanted,) = outputs_of(new, many, by="runtime")
    (found,) = outputs_of(normal_of(old, inputs), inputs, by="runtime")
    np.testing.assert_allclose(found, wanted, **NEAR)


@cases(axis=[-1, 1, -3], outputs=[1, 2, 3], bias=[False, True])
def test_layer_normalization(axis, outputs, bias):
    given = parameters(X.shape[axis:], "s", *(["b"] if bias else []))
    told = {"axis": axis, "opset": 17, "outputs": outputs}
    model = model_of("LayerNormalization", {"x": X}, constants=given, **told)
    made = require_same(model, {"x": X}, **NEAR)
    assert ("LayerNormalization" in operators_of(made)) == (outputs == 1)


@cases(opset=[7, 22], axis=[1, -1], power=[1, 2])
def test_lp_normalization(power, axis, opset):
    inputs = {"x": X.copy()}
    inputs["x"][0, :, 0, :] = 0
    inputs["x"][1, 2, 0] = 0
    model = model_of("LpNormalization", inputs, opset=opset, axis=axis, p=power)
    require_same(model, inputs, by=["runtime"], **NEAR)
    if power == 2:  # of others, the reference takes no absolute values; and it divides by zero
        require_same(model, {"x": X}, by=["reference"], **NEAR)


@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize("size", [3, 4, 2])
def test_local_response_normalization(size, opset):
    told = {"alpha": 0.2, "beta": 0.6, "bias": 1.5}
    # The reference takes the number of images for that of channels; onnxruntime knows odd sizes.
    inputs = {"x": RANDOM.standard_normal((6, 6, 5, 4)).astype("float32")}
    model = model_of("LRN", inputs, opset=opset, size=size, **told)
    made = require_same(model, inputs, by=["runtime", "reference"][size % 2 - 1 :], **NEAR)
    assert ("LRN" in operators_of(made)) == (size == 3)


@pytest.mark.parametrize("shape", [(6, 6), (6, 6, 5), (6, 6, 3, 2, 4)])
def test_near_channels_of_what_is_no_image_are_pooled(shape):
    inputs = {"x": RANDOM.standard_normal(shape).astype("float32")}
    model = model_of("LRN", inputs, size=3, alpha=0.2, beta=0.6, bias=1.5)
    made = normal_of(model, inputs)
    assert "LRN" not in operators_of(made)
    # Neither runtime knows them in the form that is given.
    squares = np.pad(inputs["x"] ** 2, [(0, 0), (1, 1), *[(0, 0)] * (len(shape) - 2)])
    total = sum(squares[:, begin : begin + 6] for begin in range(3))
    (found,) = outputs_of(made, inputs, by="runtime")
    np.testing.assert_allclose(found, inputs["x"] / (1.5 + 0.2 / 3 * total) ** 0.6, **NEAR)


@pytest.mark.parametrize("opset", [9, 13])
@pytest.mark.parametrize("axes", [None, [1, 2], [0, -1]])
def test_mean_and_variance(axes, opset):
    told = {} if axes is None else {"axes": axes}
    model = model_of("MeanVarianceNormalization", {"x": X}, opset=opset, **told)
    require_same(model, {"x": X}, **NEAR)
