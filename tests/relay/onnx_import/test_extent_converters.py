"""Indices, sizes, pads and lengths that TVM's importer gets wrong are right, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.relay.onnx_import.one_input import (
    answers,
    assert_as_the_reference,
    model,
    read,
    refused,
)
from tvm_ios.relay.frontends.onnx.importer import import_onnx

SHAPE = (2, 5, 3)


def with_indices(operator, indices, weights, *, constant, **attributes):
    """A model whose indices are a weight, or an input of the run."""
    names = ["x", "indices", *weights]
    made = model(
        helper.make_node(operator, names, ["y"], **attributes), weights=weights, shape=SHAPE
    )
    if constant:
        made.graph.initializer.append(numpy_helper.from_array(indices, "indices"))
    else:
        kind = helper.make_tensor_value_info("indices", TensorProto.INT64, indices.shape)
        made.graph.input.append(kind)
    return made


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(
    ("operator", "indices", "updates", "attributes"),
    [
        ("GatherND", [[-1, 0], [0, -2]], None, {}),
        ("GatherND", [[-1], [-5]], None, {"batch_dims": 1}),
        ("ScatterND", [[-1, 0], [0, -2]], (2, 3), {}),
        ("ScatterND", [[[-2, -5, -3], [1, 4, -1]]], (1, 2), {}),
    ],
)
def test_indices_below_zero_count_from_the_end(operator, indices, updates, attributes, constant):
    indices = np.array(indices, "int64")
    weights = {} if updates is None else {"updates": np.full(updates, 9, "float32")}
    made = with_indices(operator, indices, weights, constant=constant, **attributes)
    value = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    given = {"x": value} if constant else {"x": value, "indices": indices}
    module, _ = import_onnx("net.onnx", made, {name: a.shape for name, a in given.items()})
    (expected,) = ReferenceEvaluator(made).run(None, given)
    (found,) = answers(module, *given.values())
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("k", [-7, -1, 0, 2])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_ones_on_a_diagonal_lie_within_the_matrix(k, shape):
    assert_as_the_reference(
        model(helper.make_node("EyeLike", ["x"], ["y"], k=k), shape=shape), shape
    )


def test_ones_have_the_type_that_is_asked_for():
    node = helper.make_node("EyeLike", ["x"], ["y"], k=1, dtype=TensorProto.INT64)
    (found,) = answers(read(model(node, shape=(2, 2)), (2, 2)), np.zeros((2, 2), "float32"))
    assert (found.dtype, found.tolist()) == ("int64", [[0, 1], [0, 0]])


@pytest.mark.parametrize(("start", "end"), [(0, 0), (-2, 0), (1, -1), (0, 9), (3, 1)])
def test_a_part_of_a_shape_may_be_empty(start, end):
    assert_as_the_reference(model(helper.make_node("Shape", ["x"], ["y"], start=start, end=end)))


IMAGE = (1, 2, 7, 6)


def resize(scales, opset, **attributes):
    inputs = ["x", "scales"] if opset < 11 else ["x", "", "scales"]
    node = helper.make_node("Resize", inputs, ["y"], name="scale", **attributes)
    weights = {"scales": np.array(scales, "float32")}
    return model(node, weights=weights, opset=opset, shape=IMAGE)


@pytest.mark.parametrize("opset", [10, 11, 13, 18])
@pytest.mark.parametrize("scale", [0.7, 1.5, 0.5])
def test_a_scale_that_gives_no_whole_size_is_refused(scale, opset):
    said = refused(resize([1, 1, scale, 1], opset), IMAGE)
    assert said.startswith("net.onnx: node 'scale' (Resize) has scales that make [1.0, 2.0, ")
    assert said.endswith("which are no whole sizes; give the input sizes in place of scales")


def test_a_scale_that_gives_whole_sizes_is_read():
    assert_as_the_reference(resize([1, 1, 2 / 7, 0.5], 13), IMAGE)
    read(resize([1, 1, 2, 0.5], 10), IMAGE)


def test_other_axes_and_roundings_are_refused():
    assert "TVM's importer leaves the first two axes as they are; transpose" in refused(
        resize([1, 2, 1, 1], 13), IMAGE
    )
    assert "rounds otherwise in opset 10; save the model in opset 11" in refused(
        resize([1, 1, 3 / 7, 1], 10), IMAGE
    )


@pytest.mark.parametrize("opset", [9, 17])
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "NOTSET"])
def test_transposed_convolutions_have_the_size_that_is_asked_for(mode, opset):
    node = helper.make_node(
        "ConvTranspose",
        ["x", "w"],
        ["y"],
        auto_pad=mode,
        strides=[2, 2],
        **({"output_shape": [8, 8]} if mode == "NOTSET" else {}),
    )
    made = model(node, weights={"w": weight(3, 3)}, opset=opset)
    value = np.random.default_rng(0).standard_normal((2, 3, 4, 4)).astype("float32")
    pads = [0, 0, 1, 1] if mode == "SAME_UPPER" else [1, 1, 0, 0]
    plain = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=pads)
    (expected,) = ReferenceEvaluator(model(plain, weights={"w": weight(3, 3)})).run(
        None, {"x": value}
    )
    (found,) = answers(read(made), value)
    assert found.shape == (2, 2, 8, 8)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def weight(*kernel):
    return np.random.default_rng(1).standard_normal((3, 2, *kernel)).astype("float32")


def test_transposed_convolutions_make_nothing_up():
    node = helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], name="up", auto_pad="SAME_LOWER", strides=[3, 3]
    )
    said = refused(model(node, weights={"w": weight(2, 2)}))
    assert "node 'up' (ConvTranspose) has auto_pad=SAME_LOWER and is to give [12, 12], more" in said
