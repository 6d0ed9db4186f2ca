"""Sparse constants of an ONNX model, written down with all of their zeros."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import numpy_helper

from tvm_ios.core.tensor_size import require_size
from tvm_ios.errors import ModelError

__all__ = ["make_dense"]


def make_dense(model: onnx.ModelProto) -> None:
    """Give a model dense constants in place of sparse ones; onnx's checker has accepted it.

    Raises ModelError for one of text, and for one that is larger than the memory.
    """
    _in_graph(model.graph)
    for function in model.functions:
        _in_nodes(function.node)


def _in_graph(graph: onnx.GraphProto) -> None:
    if graph.sparse_initializer:
        graph.initializer.extend(_dense(each) for each in graph.sparse_initializer)
        del graph.sparse_initializer[:]
    _in_nodes(graph.node)


def _in_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
                attribute.t.CopyFrom(_dense(attribute.sparse_tensor))
                attribute.ClearField("sparse_tensor")
                attribute.type = onnx.AttributeProto.TENSOR
                attribute.name = "value"  # only constants have sparse ones, as ``sparse_value``
            for graph in (attribute.g, *attribute.graphs):
                _in_graph(graph)


def _dense(tensor: onnx.SparseTensorProto) -> onnx.TensorProto:
    values, indices = (numpy_helper.to_array(each) for each in (tensor.values, tensor.indices))
    shape = tuple(tensor.dims)
    name = tensor.values.name
    require_size(f"the sparse constant {name!r} is", shape, 8 * values.dtype.itemsize)
    if values.dtype.kind == "O":
        raise ModelError(f"the sparse constant {name!r} is of text; give numbers")
    made = np.zeros(shape, values.dtype)
    flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
    made.reshape(-1)[flat] = values
    return numpy_helper.from_array(made, name)
