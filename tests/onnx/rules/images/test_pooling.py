"""Poolings say their pads, also for windows that are rounded up."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.cases import cases
from tests.onnx.forms import model_of, normal_of, operators_of, require_same
from tvm_ios.errors import ModelError

EXACT = {"rtol": 1e-5, "atol": 1e-5}
SINCE = {"MaxPool": [8, 10, 22], "AveragePool": [7, 10, 22], "LpPool": [7, 22]}
CEIL = {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}
DILATED = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}
FORMS = [(operator, opset) for operator, opsets in SINCE.items() for opset in opsets]


def attributes(operator, seed, rank, opset):
    """Random attributes of a pooling, as far as the opset knows them, and an image."""
    random = np.random.default_rng(seed)
    kernel = random.integers(1, 4, rank)
    made = {
        "kernel_shape": kernel.tolist(),
        "strides": random.integers(1, 4, rank).tolist(),
        "pads": [int(random.integers(0, extent)) for extent in [*kernel, *kernel]],
    }
    if opset >= CEIL[operator]:
        made["ceil_mode"] = int(random.integers(0, 2))
    if opset >= DILATED[operator] and seed % 2:
        made["dilations"] = random.integers(1, 3, rank).tolist()
    if operator == "AveragePool":
        made["count_include_pad"] = int(random.integers(0, 2))
    if operator == "LpPool":
        made["p"] = int(random.integers(1, 4))
    return made, random.standard_normal((2, 3, *random.integers(5, 8, rank))).astype("float32")


def require_whole(model, inputs):
    """Of both, onnx's reference has pads on both sides where windows are rounded up."""
    made = require_same(model, inputs, by=["runtime"], **EXACT)
    for node in made.graph.node:
        if node.op_type in SINCE:
            said = {a.name: a for a in node.attribute}
            assert said["auto_pad"].s == b"NOTSET"
            assert not said["ceil_mode"].i
            assert {"kernel_shape", "strides", "dilations", "pads"} <= set(said)
    return made


@cases(form=FORMS, rank=[1, 2, 3])
def test_windows_are_whole(form, rank):
    operator, opset = form
    for seed in range(6):
        given, x = attributes(operator, seed, rank, opset)
        made = require_whole(model_of(operator, {"x": x}, opset=opset, **given), {"x": x})
        assert "LpPool" not in operators_of(made)


@cases(
    where=lambda form, ceil: not ceil or form[1] >= CEIL[form[0]],
    form=FORMS,
    ceil=[0, 1],
)
def test_pads_are_numbers(form, ceil):
    operator, opset = form
    x = np.random.default_rng(1).standard_normal((1, 2, 7, 6)).astype("float32")
    told = {"ceil_mode": 1} if ceil else {}
    told |= {"opset": opset, "kernel_shape": [3, 2], "strides": [2, 2]}
    for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        require_whole(model_of(operator, {"x": x}, auto_pad=mode, **told), {"x": x})


@pytest.mark.parametrize(
    "apart", [{"kernel_shape": [1], "strides": [3]}, {"kernel_shape": [2], "dilations": [2]}]
)
@pytest.mark.parametrize("operator", SINCE)
def test_what_runtimes_differ_in_is_refused(operator, apart):
    x = np.zeros((1, 1, 6), "float32")
    model = model_of(operator, {"x": x}, opset=22, auto_pad="SAME_UPPER", **apart)
    with pytest.raises(ModelError, match="has auto_pad=SAME_UPPER with dilations, or with strides"):
        normal_of(model, {"x": x})


@pytest.mark.parametrize("operator", SINCE)
def test_windows_that_are_larger_than_the_image_are_refused_or_rounded_up(operator):
    x = np.random.default_rng(0).standard_normal((1, 1, 2)).astype("float32")
    told = {"opset": 22, "kernel_shape": [4], "pads": [1, 0], "strides": [2]}
    require_whole(model_of(operator, {"x": x}, ceil_mode=1, **told), {"x": x})
    model = model_of(operator, {"x": x}, **told)
    with pytest.raises(ModelError, match=r"has windows of \[4\], larger than the image of \[2\]"):
        normal_of(model, {"x": x})


@cases(order=[0, 1], rank=[1, 2, 3], opset=[8, 12])
def test_places_of_the_greatest_values(opset, rank, order):
    for seed in range(6):
        given, x = attributes("MaxPool", seed, rank, opset)
        x = np.round(x)  # several are greatest
        model = model_of("MaxPool", {"x": x}, opset=opset, outputs=2, storage_order=order, **given)
        require_whole(model, {"x": x})


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float64"])
def test_places_of_other_types(dtype):
    x = np.random.default_rng(0).integers(0, 9, (1, 2, 5, 5)).astype(dtype)
    model = model_of("MaxPool", {"x": x}, opset=12, outputs=2, kernel_shape=[2, 3], pads=[1] * 4)
    require_whole(model, {"x": x})


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("operator", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"])
def test_pooling_of_whole_images(operator, rank):
    x = np.random.default_rng(0).standard_normal((2, 3, *range(3, 3 + rank))).astype("float32")
    powers = [{"p": power} for power in (1, 2, 3)] if operator == "GlobalLpPool" else [{}]
    for told in powers:
        # The reference knows no norm, and keeps other axes of a maximum.
        by = ["reference", "runtime"] if operator == "GlobalAveragePool" else ["runtime"]
        made = require_same(model_of(operator, {"x": x}, **told), {"x": x}, by=by, **EXACT)
        assert (operator in operators_of(made)) == (rank == 2 and operator != "GlobalLpPool")


@pytest.mark.parametrize("opset", [9, 11, 22])
def test_values_go_back_to_their_places(opset):
    x = np.random.default_rng(0).standard_normal((2, 3, 2, 2)).astype("float32")
    places = np.arange(x.size).reshape(x.shape) * 4 + 1
    model = model_of(
        "MaxUnpool",
        {"x": x, "places": places},
        kernel_shape=[2, 2],
        strides=[2, 2],
        opset=opset,
    )
    made = require_same(model, {"x": x, "places": places})
    assert "MaxUnpool" not in operators_of(made)
