"""Convolutions say their pads, and compute the same by them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, normal_of, require_same
from tvm_ios.errors import ModelError

EXACT = {"rtol": 1e-5, "atol": 1e-5}
MODES = ["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]


def convolution(operator, seed, mode, opset, *, rank=2, group=1, bias=True, **given):
    """A model with random extents and attributes, and the input that it is run on."""
    random = np.random.default_rng(seed)
    kernel = random.integers(1, 4, rank)
    into, out = 2 * group, 3 * group
    x = random.standard_normal((2, into, *random.integers(5, 8, rank))).astype("float32")
    shape = (into, out // group) if operator == "ConvTranspose" else (out, into // group)
    constants = {"w": random.standard_normal((*shape, *kernel)).astype("float32")}
    if bias:
        constants["b"] = random.standard_normal(out).astype("float32")
    given.setdefault("strides", random.integers(1, 4, rank).tolist())
    if mode == "NOTSET" and "output_shape" not in given:
        given["pads"] = random.integers(0, 2, 2 * rank).tolist()
        given["dilations"] = random.integers(1, 3, rank).tolist()
    if mode != "NOTSET":
        given["auto_pad"] = mode
    names = ["x", "w", "b" if bias else ""]
    given["group"] = group
    model = model_of(operator, {"x": x}, constants=constants, names=names, opset=opset, **given)
    return model, {"x": x}


def require_said(model, inputs, **exact):
    made = require_same(model, inputs, **EXACT, **exact)
    said = {a.name: a for node in made.graph.node for a in node.attribute}
    assert {"kernel_shape", "strides", "dilations", "pads", "group"} <= set(said)
    assert said["auto_pad"].s == b"NOTSET"
    assert all(name for node in made.graph.node for name in node.input)
    assert made.graph.node[0].op_type in ("Conv", "ConvTranspose")


@cases(seed=range(3), rank=[1, 2, 3], mode=MODES, opset=[7, 22])
def test_pads_of_convolutions_are_numbers(mode, rank, seed, opset):
    group, bias = 1 + seed % 2, seed != 1
    require_said(
        *convolution("Conv", seed, mode, opset, rank=rank, group=group, bias=bias),
        by=["reference", "runtime"] if bias else ["runtime"],
    )


@pytest.mark.parametrize("mode", MODES[1:3])
def test_windows_with_gaps_have_pads_too(mode):
    model, inputs = convolution("Conv", 0, mode, 22, dilations=[2, 2], strides=[1, 2])
    # onnxruntime refuses them.
    require_said(model, inputs, by=["reference"])


@cases(seed=range(3), rank=[1, 2, 3], mode=MODES, opset=[7, 22])
def test_pads_of_transposed_convolutions_are_numbers(mode, rank, seed, opset):
    model, inputs = convolution(
        "ConvTranspose", seed, mode, opset, rank=rank, group=1 + seed % 2, bias=seed != 1
    )
    # onnx's reference takes no groups, and opset 7 of SAME_LOWER for later ones.
    require_said(model, inputs, by=["runtime"])


@cases(
    where=lambda by, mode, **_: by <= 0 or mode == "NOTSET",
    by=[-3, -2, -1, 0, 1],
    mode=MODES[:3],
    opset=[7, 22],
)
def test_transposed_convolutions_have_the_size_that_is_asked_for(mode, by, opset):
    """More than is computed is zeros, where all that run it agree."""
    plain, inputs = convolution("ConvTranspose", 5, "VALID", opset, strides=[2, 3])
    size = [each.dim_value + by for each in plain.graph.output[0].type.tensor_type.shape.dim[2:]]
    model, _ = convolution("ConvTranspose", 5, mode, opset, strides=[2, 3], output_shape=size)
    made = require_same(model, inputs, by=["runtime"], **EXACT)
    assert made.graph.node[0].op_type == "ConvTranspose"


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("mode", MODES[1:3])
def test_transposed_convolutions_make_nothing_up(mode, opset):
    """Strides beyond the kernel give less than as many steps as the image has."""
    model, inputs = convolution("ConvTranspose", 5, mode, opset, strides=[4, 4])
    require_said(model, inputs, by=["runtime"])


@pytest.mark.parametrize("mode", MODES)
def test_zero_points_of_integers_are_given(mode):
    random = np.random.default_rng(2)
    x = random.integers(0, 255, (1, 2, 6, 7), dtype="uint8")
    w = random.integers(0, 255, (3, 2, 3, 2), dtype="uint8")
    told = {"strides": [2, 1], "opset": 10} | ({} if mode == "NOTSET" else {"auto_pad": mode})
    for zeros in ([], ["x0"], ["x0", "w0"], ["", "w0"]):
        constants = {"w": w, **{name: np.array(7, "uint8") for name in zeros if name}}
        names = ["x", "w", *zeros]
        model = model_of("ConvInteger", {"x": x}, constants=constants, names=names, **told)
        made = require_same(model, {"x": x}, by=["runtime"])
        (node,) = made.graph.node
        assert len(node.input) == 4
        assert all(node.input)


@pytest.mark.parametrize("mode", ["NOTSET", "VALID"])
def test_kernels_larger_than_their_images_are_refused(mode):
    inputs = {"x": np.zeros((1, 1, 2, 5), "float32")}
    weights = {"w": np.zeros((1, 1, 3, 3), "float32")}
    with pytest.raises(ModelError, match="larger than the image"):
        normal_of(model_of("Conv", inputs, constants=weights, auto_pad=mode), inputs)
