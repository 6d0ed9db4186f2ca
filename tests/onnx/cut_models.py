"""Models with ends that compiled code lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.onnx.forms import graph_of

__all__ = ["ENDS", "X", "end", "inputs_of"]

X = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
WEIGHTS = np.random.default_rng(1).standard_normal((6, 8)).astype("float32")


def end(
    nodes: Sequence[tuple[Any, ...]],
    outputs: Sequence[str],
    *,
    opset: int = 17,
    more: Mapping[str, Any] | None = None,
    **constants: Any,
) -> onnx.ModelProto:
    """A product ``m`` of the input ``x``, and nodes behind it.

    A node is its operator, its inputs, its output, and attributes where it has some. ``more`` are
    further inputs.
    """
    made = [helper.make_node("MatMul", ["x", "w"], ["m"], name="product")]
    for op_type, inputs, output, *attributes in nodes:
        told = attributes[0] if attributes else {}
        made.append(helper.make_node(op_type, inputs.split(), [output], name=output, **told))
    given = {"x": X, **(more or {})}
    return graph_of(made, given, outputs, constants={"w": WEIGHTS, **constants}, opset=opset)


def inputs_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Values for the inputs of a model of this file."""
    known = {"x": X, "pads": np.array([1, 0, 0, 2])}
    return {value.name: known[value.name] for value in model.graph.input}


def _branches() -> dict[str, onnx.GraphProto]:
    """Branches of an ``If``, of which one takes ``m`` from outside."""

    def branch(*nodes: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph(nodes, "branch", [], [onnx.ValueInfoProto(name="of_branch")])

    return {
        "then_branch": branch(helper.make_node("Neg", ["m"], ["of_branch"])),
        "else_branch": branch(helper.make_node("Constant", [], ["of_branch"], value_float=1.0)),
    }


_POSITIVE = [("Relu", "m", "positive"), ("NonZero", "positive", "places")]
ENDS = {
    "places": end(_POSITIVE, ["places"]),
    "two ends, one of which is cut": end(
        [*_POSITIVE, ("Tanh", "m", "y"), ("Transpose", "places", "z")], ["z", "y"]
    ),
    "an output that the rest reads": end(_POSITIVE, ["places", "positive"]),
    "an input and a weight": end(
        [
            ("Slice", "m from to", "part"),
            ("NonZero", "part", "places"),
            ("Transpose", "places", "pairs"),
            ("GatherND", "x pairs", "found"),
            ("Mul", "found scale", "y"),
        ],
        ["y"],
        scale=np.array([3], "float32"),
        **{"from": np.array([0, 0]), "to": np.array([4, 6])},
    ),
    "shape arithmetic": end(
        [
            ("Shape", "m", "shape"),
            ("NonZero", "m", "places"),
            ("Cast", "shape", "extents", {"to": onnx.TensorProto.INT64}),
            ("Unsqueeze", "extents axis", "column"),
            ("Sub", "column places", "y"),
        ],
        ["y"],
        axis=np.array([1]),
    ),
    "boxes": end(
        [
            ("Reshape", "m to_boxes", "boxes"),
            ("Sigmoid", "x", "logits"),
            ("Reshape", "logits to_scores", "scores"),
            ("NonMaxSuppression", "boxes scores most overlap", "kept"),
            ("Gather", "kept last", "y", {"axis": 1}),
        ],
        ["y", "boxes"],
        to_boxes=np.array([1, 8, 4]),
        to_scores=np.array([1, 3, 8]),
        most=np.array([3]),
        overlap=np.array([0.5], "float32"),
        last=np.array(2),
    ),
    "a form of an old opset": end(
        [("NonZero", "m", "places"), ("Unsqueeze", "places", "y", {"axes": [-1]})],
        ["y"],
        opset=11,
    ),
    "a branch that takes values from outside": end(
        [
            ("NonZero", "m", "places"),
            ("Size", "places", "count"),
            ("Cast", "count", "any", {"to": onnx.TensorProto.BOOL}),
            ("If", "any", "y", _branches()),
        ],
        ["y"],
    ),
    "what a rule refuses": end(
        [("Pad", "m pads", "padded"), ("Neg", "padded", "y")],
        ["y"],
        more={"pads": np.zeros(4, "int64")},
    ),
    "a function": end([("NonZero", "m", "places"), ("HardSwish", "m", "y")], ["y", "places"]),
}
"""Models by what is special about them; each can be cut."""
