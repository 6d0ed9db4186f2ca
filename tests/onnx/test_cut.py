"""A model cut in two computes what it did, by onnxruntime on both parts."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from tests.onnx.cut_models import ENDS, X, end, inputs_of
from tests.onnx.forms import operators_of, outputs_of
from tvm_ios.errors import ModelError
from tvm_ios.onnx.cut import cut, origin
from tvm_ios.onnx.normal_form import flattened, normalised, refusals, walked


def parts_of(model, *refused):
    """The cut before the nodes that make these values."""
    shapes = {name: value.shape for name, value in inputs_of(model).items()}
    return cut(flattened(ir.from_proto(model), shapes), refused)


FIRST = {"what a rule refuses": "padded", "boxes": "kept"}
"""Values whose makers are refused; ``places`` otherwise."""


@pytest.mark.parametrize("kind", ENDS)
def test_both_parts_compute_what_the_model_does(kind):
    model, inputs = ENDS[kind], inputs_of(ENDS[kind])
    parts = parts_of(model, FIRST.get(kind, "places"))
    front, rest = ir.to_proto(parts.front), ir.to_proto(parts.rest)
    made = outputs_of(front, inputs, by="runtime")
    values = inputs | dict(zip([v.name for v in front.graph.output], made, strict=True))
    given = {value.name: values[value.name] for value in rest.graph.input}
    made = outputs_of(rest, given, by="runtime")
    values |= dict(zip([v.name for v in rest.graph.output], made, strict=True))
    for name, wanted in zip(parts.outputs, outputs_of(model, inputs, by="runtime"), strict=True):
        np.testing.assert_array_equal(values[name], wanted)
    assert parts.all_nodes == len(model.graph.node)
    assert parts.rest_nodes == len(rest.graph.node)


def test_constants_go_with_the_nodes_that_need_them():
    parts = parts_of(ENDS["shape arithmetic"], "places")
    assert [value.name for value in parts.front.graph.outputs] == ["m"]
    rest = ir.to_proto(parts.rest)
    assert [value.name for value in rest.graph.input] == ["m"]
    assert sorted(operators_of(rest)) == ["Cast", "NonZero", "Sub", "Unsqueeze"]


def test_nodes_that_are_not_behind_stay_in_the_front():
    parts = parts_of(ENDS["two ends, one of which is cut"], "places")
    assert operators_of(ir.to_proto(parts.front)) == ["MatMul", "Relu", "Tanh"]
    assert parts.outputs == ("z", "y")


def test_parts_of_one_tensor_are_picked_by_the_rest():
    nodes = [("Gather", "m one", "first"), ("Gather", "m two", "second")]
    nodes += [("Greater", "first one_half", "any"), ("Cast", "any", "cast", {"to": 9})]
    nodes += [("NonZero", "cast", "places"), ("NonZero", "second", "more")]
    numbers = {"one": np.array(1), "two": np.array(2), "one_half": np.array(0.5, "float32")}
    parts = parts_of(end(nodes, ["places", "more"], **numbers), "places", "more")
    assert operators_of(ir.to_proto(parts.front)) == ["MatMul"]
    parts = parts_of(end(nodes, ["places", "second"], **numbers), "places")
    assert operators_of(ir.to_proto(parts.front)) == ["MatMul", "Slice", "Reshape"]


def test_nothing_is_cut_where_no_product_stays():
    assert parts_of(ENDS["places"], "m") is None
    assert parts_of(ENDS["places"]) is None


def test_a_node_that_a_rule_refuses_stays_where_a_cut_is_meant():
    model = ENDS["what a rule refuses"]
    shapes = {name: value.shape for name, value in inputs_of(model).items()}
    with pytest.raises(ModelError, match=r"^node 'padded' \(Pad\) takes "):
        normalised(ir.from_proto(model), shapes)
    made = walked(flattened(ir.from_proto(model), shapes), keeps_refused=True)
    ((node, message),) = refusals(made).items()
    assert origin(node) == "padded"
    assert message.startswith("node 'padded' (Pad) takes ")


def test_a_contradiction_is_no_reason_for_a_cut():
    model = end([("Add", "m many", "y")], ["y"], many=np.zeros((3, 5), "float32"))
    with pytest.raises(ModelError, match=r"node 'y' \(Add\) is no valid ONNX"):
        walked(flattened(ir.from_proto(model), {"x": X.shape}), keeps_refused=True)
