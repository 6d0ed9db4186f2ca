"""Write a described network as an ONNX file, for onnxruntime and OpenVINO."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.peers.network import Case, Floats, Network, Node, Operator

__all__ = ["onnx_model", "write_onnx"]

# What every release of either peer of the last years reads.
_OPSET, _IR_VERSION = 17, 8

_KINDS: Mapping[Operator, str] = {
    Operator.CONVOLUTION: "Conv",
    Operator.RELU: "Relu",
    Operator.ADD: "Add",
    Operator.CONCATENATE: "Concat",
    Operator.MAX_POOL: "MaxPool",
    Operator.AVERAGE_POOL: "AveragePool",
    Operator.GLOBAL_AVERAGE_POOL: "GlobalAveragePool",
}


def write_onnx(case: Case, path: Path) -> None:
    """Write the network with its weights; tensors keep the names of the description."""
    onnx.save_model(onnx_model(case.network, case.weights), path)


def onnx_model(network: Network, weights: Mapping[str, Floats]) -> onnx.ModelProto:
    """The network as a checked ONNX model."""
    graph = helper.make_graph(
        [_onnx_node(node) for node in network.nodes],
        network.name,
        [_tensor(network.input, network.input_shape)],
        [_tensor(network.output, network.nodes[-1].shape)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def _tensor(name: str, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _onnx_node(node: Node) -> onnx.NodeProto:
    weights = [name for name in (node.weight, node.bias) if name]
    return helper.make_node(
        _KINDS[node.operator],
        [*node.inputs, *weights],
        [node.output],
        name=node.output,
        **_attributes(node),
    )


def _attributes(node: Node) -> dict[str, Any]:
    window = {
        "kernel_shape": node.kernel,
        "strides": node.strides,
        "pads": (*node.padding, *node.padding),
    }
    match node.operator:
        case Operator.CONVOLUTION:
            return {**window, "group": node.groups}
        case Operator.MAX_POOL:
            return window
        case Operator.AVERAGE_POOL:
            return {**window, "count_include_pad": 1}
        case Operator.CONCATENATE:
            return {"axis": 1}
        case _:
            return {}
