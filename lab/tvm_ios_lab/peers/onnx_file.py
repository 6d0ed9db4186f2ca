"""Write a described network as an ONNX file, for onnxruntime and OpenVINO.

Where ONNX has no operator of that kind, nodes are those that PyTorch's exporter writes: the peers
recognise them and fuse them again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import helper, numpy_helper

from tvm_ios_lab.peers.network import Case, Floats, Network, Node, Operator

__all__ = ["current_onnx", "onnx_model"]

# What every release of either peer of the last years reads.
_OPSET, _IR_VERSION = 17, 8

_KINDS: Mapping[Operator, str] = {
    Operator.CONVOLUTION: "Conv",
    Operator.TRANSPOSED_CONVOLUTION: "ConvTranspose",
    Operator.DENSE: "Gemm",
    Operator.LAYER_NORM: "LayerNormalization",
    Operator.RELU: "Relu",
    Operator.HARD_SIGMOID: "HardSigmoid",
    Operator.HARD_SWISH: "HardSwish",
    Operator.ADD: "Add",
    Operator.MULTIPLY: "Mul",
    Operator.CONCATENATE: "Concat",
    Operator.FLATTEN: "Flatten",
    Operator.SOFTMAX: "Softmax",
    Operator.TANH: "Tanh",
    Operator.MAX_POOL: "MaxPool",
    Operator.AVERAGE_POOL: "AveragePool",
    Operator.GLOBAL_AVERAGE_POOL: "GlobalAveragePool",
}
"""Operators of ONNX that are one node whose inputs are the same as ours."""


def current_onnx(case: Case, folder: Path) -> Path:
    """The ONNX file in a network's folder: that which was imported, or one as it is described.

    Tensors keep the names of the description. It is written where it is missing, or older.
    """
    path = folder / "network.onnx"
    described_s = (folder / "network.json").stat().st_mtime
    if case.network.is_described and not (path.exists() and path.stat().st_mtime >= described_s):
        onnx.save_model(onnx_model(case.network, case.weights), path)
    return path


def onnx_model(network: Network, weights: Mapping[str, Floats]) -> onnx.ModelProto:
    """The network as a checked ONNX model."""
    shaped = _shaped(network, weights)
    graph = _Graph()
    for node in network.nodes:
        graph.add(node)
    made = helper.make_graph(
        graph.nodes,
        network.name,
        [_tensor(network.input, network.input_dtype, network.input_shape)],
        [_tensor(network.output, "float32", network.nodes[-1].shape)],
        [
            *(numpy_helper.from_array(value, name) for name, value in shaped.items()),
            *graph.constants,
        ],
    )
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )
    onnx.checker.check_model(model, full_check=True)
    return model


class _Graph:
    """Nodes and constants so far."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def add(self, node: Node) -> None:
        """Add what computes a node of the description."""
        if node.operator in _KINDS:
            weights = [name for name in (node.weight, node.bias) if name]
            inputs = (*node.inputs, *weights)
            self._call(_KINDS[node.operator], inputs, node.output, **_attributes(node))
        else:
            _SEVERAL[node.operator](self, node)

    def _call(self, kind: str, inputs: tuple[str, ...], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=output, **attributes))
        return output

    def _constant(self, name: str, value: ArrayLike, dtype: str = "float32") -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def _reshape(self, operand: str, output: str, shape: tuple[int, ...]) -> str:
        target = self._constant(f"{output}.shape", shape, "int64")
        return self._call("Reshape", (operand, target), output)

    def relu6(self, node: Node) -> None:
        bounds = (self._constant(f"{node.output}.low", 0), self._constant(f"{node.output}.high", 6))
        self._call("Clip", (*node.inputs, *bounds), node.output)

    def scale_shift(self, node: Node) -> None:
        """A normalisation whose statistics say nothing: that one both peers fuse and lay out."""
        channels = node.shape[1]
        mean = self._constant(f"{node.output}.mean", np.zeros(channels))
        variance = self._constant(f"{node.output}.variance", np.ones(channels))
        inputs = (*node.inputs, node.weight, node.bias, mean, variance)
        self._call("BatchNormalization", inputs, node.output, epsilon=0.0)

    def embedding(self, node: Node) -> None:
        self._call("Gather", (node.weight, *node.inputs), node.output, axis=0)

    def reshape(self, node: Node) -> None:
        (operand,) = node.inputs
        self._reshape(operand, node.output, node.shape)

    def gelu(self, node: Node) -> None:
        name, (operand,) = node.output, node.inputs
        root = self._constant(f"{name}.root", sqrt(2))
        error = self._call(
            "Erf", (self._call("Div", (operand, root), f"{name}.scaled"),), f"{name}.error"
        )
        gate = self._call("Add", (error, self._constant(f"{name}.one", 1)), f"{name}.gate")
        gated = self._call("Mul", (operand, gate), f"{name}.gated")
        self._call("Mul", (gated, self._constant(f"{name}.half", 0.5)), name)

    def attention(self, node: Node) -> None:
        name, (rows, features) = node.output, node.shape
        size = features // node.heads
        split = (rows // node.tokens, node.tokens, node.heads, size)

        def heads(label: str, operand: str, axes: tuple[int, ...]) -> str:
            by_head = self._reshape(operand, f"{name}.{label}.split", split)
            return self._call("Transpose", (by_head,), f"{name}.{label}", perm=axes)

        query, key, value = node.inputs
        query = heads("query", query, (0, 2, 1, 3))
        key = heads("key", key, (0, 2, 3, 1))
        value = heads("value", value, (0, 2, 1, 3))
        scores = self._call("MatMul", (query, key), f"{name}.scores")
        root = self._constant(f"{name}.root", sqrt(size))
        scaled = self._call("Div", (scores, root), f"{name}.scaled")
        shares = self._call("Softmax", (scaled,), f"{name}.shares", axis=-1)
        read = self._call("MatMul", (shares, value), f"{name}.read")
        turned = self._call("Transpose", (read,), f"{name}.turned", perm=(0, 2, 1, 3))
        self._reshape(turned, name, node.shape)


_SEVERAL: Mapping[Operator, Callable[[_Graph, Node], None]] = {
    Operator.RELU6: _Graph.relu6,
    Operator.SCALE_SHIFT: _Graph.scale_shift,
    Operator.EMBEDDING: _Graph.embedding,
    Operator.RESHAPE: _Graph.reshape,
    Operator.GELU: _Graph.gelu,
    Operator.ATTENTION: _Graph.attention,
}


def _shaped(network: Network, weights: Mapping[str, Floats]) -> dict[str, Floats]:
    """The weights, those of a normalisation as the vectors it wants."""
    flat = {
        name
        for node in network.nodes
        if node.operator is Operator.SCALE_SHIFT
        for name in (node.weight, node.bias)
    }
    return {name: value.ravel() if name in flat else value for name, value in weights.items()}


def _tensor(name: str, dtype: str, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
    )


def _attributes(node: Node) -> dict[str, Any]:
    window = {
        "kernel_shape": node.kernel,
        "strides": node.strides,
        "pads": (*node.padding, *node.padding),
    }
    match node.operator:
        case Operator.CONVOLUTION | Operator.TRANSPOSED_CONVOLUTION:
            return {**window, "group": node.groups}
        case Operator.MAX_POOL:
            return {**window, "ceil_mode": int(node.round_up)}
        case Operator.AVERAGE_POOL:
            return {**window, "ceil_mode": int(node.round_up), "count_include_pad": 1}
        case Operator.DENSE:
            return {"transB": 1}
        case Operator.SOFTMAX:
            return {"axis": -1}
        case Operator.LAYER_NORM:
            return {"axis": -1, "epsilon": node.epsilon}
        case Operator.HARD_SIGMOID:
            return {"alpha": 1 / 6, "beta": 0.5}
        case Operator.CONCATENATE | Operator.FLATTEN:
            return {"axis": 1}
        case _:
            return {}
