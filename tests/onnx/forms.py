"""Small models in ONNX, and the check that their normal form says the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tvm_ios.onnx.normal_form import normalised

__all__ = ["model_of", "normal_of", "operators_of", "outputs_of", "parsed", "require_same"]


def model_of(
    op_type: str,
    inputs: Mapping[str, Any],
    *,
    constants: Mapping[str, Any] | None = None,
    names: Sequence[str] | None = None,
    opset: int = 21,
    outputs: int = 1,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node: inputs and constants by name, given to it in the order of ``names``."""
    constants = {key: np.asarray(value) for key, value in (constants or {}).items()}
    names = [*inputs, *constants] if names is None else names
    made = [f"y{number}" for number in range(outputs)]
    node = helper.make_node(op_type, names, made, name="node", **attributes)
    return graph_of([node], inputs, made, constants=constants, opset=opset)


def graph_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    *,
    constants: Mapping[str, Any] | None = None,
    opset: int = 21,
) -> onnx.ModelProto:
    """A model of these nodes; the types of outputs are left to be inferred."""
    given = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype), np.shape(value)
        )
        for name, value in inputs.items()
    ]
    weights = [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    made = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "graph", given, made, weights)
    version = helper.make_opsetid("", opset)
    model = helper.make_model(graph, opset_imports=[version], ir_version=10)
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def parsed(text: str, *, opset: int = 21) -> onnx.ModelProto:
    """A model that onnx's parser reads: a graph with its inputs, outputs and nodes."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {text}')


def normal_of(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> onnx.ModelProto:
    """The normal form of a model, which onnx's checker accepts."""
    shapes = {name: np.shape(value) for name, value in inputs.items()}
    made = ir.to_proto(normalised(ir.from_proto(model), shapes))
    onnx.checker.check_model(made, full_check=True)
    return made


def operators_of(model: onnx.ModelProto) -> list[str]:
    """Operators of a model, in order."""
    return [node.op_type for node in model.graph.node]


def outputs_of(model: onnx.ModelProto, inputs: Mapping[str, Any], *, by: str) -> list[np.ndarray]:
    """What a model computes ``by`` onnx's ``reference``, or by onnxruntime (``runtime``)."""
    if by == "reference":
        # On some processors NumPy's products of tiny matrices warn of numbers that nobody gave.
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(model).run(None, dict(inputs))
        return [np.asarray(each) for each in found]
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(inputs))


def require_same(
    model: onnx.ModelProto,
    inputs: Mapping[str, Any],
    *,
    by: Sequence[str] = ("reference", "runtime"),
    rtol: float = 0.0,
    atol: float = 0.0,
) -> onnx.ModelProto:
    """The normal form of a model, which computes the same, bit for bit where nothing is given."""
    made = normal_of(model, inputs)
    for way in by:
        wanted, found = (outputs_of(each, inputs, by=way) for each in (model, made))
        for one, other in zip(wanted, found, strict=True):
            assert one.dtype == other.dtype
            assert one.shape == other.shape
            np.testing.assert_allclose(other, one, rtol=rtol, atol=atol, equal_nan=True)
    return made
