"""Repair of what is wrong in a model that runtimes run and that onnx's checker would refuse."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import onnx

from tvm_ios.onnx.rule import MICROSOFT

__all__ = ["put_right"]

_WITH_OPSETS = 3
"""The version of the file format from which a model says its opsets."""
_LAYER_NORM = 17
"""The opset of ONNX's layer norm, which onnxruntime writes into older models as well."""


def put_right(model: onnx.ModelProto) -> None:
    """Put right what says nothing of what a model computes.

    Types between nodes are left out, and shapes of outputs: they follow from the nodes.
    """
    model.ir_version = max(model.ir_version, _WITH_OPSETS)
    graph = model.graph
    graph.name = graph.name or "graph"
    del graph.value_info[:]
    for value in graph.output:
        if not value.HasField("type"):
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.ClearField("dim")
            value.type.tensor_type.shape.dim.add()
    _name_domains(model)
    _sort(graph)


def _name_domains(model: onnx.ModelProto) -> None:
    """Have operators of onnxruntime be of its domain, which the model uses."""
    opset = max((each.version for each in model.opset_import if not each.domain), default=1)
    names = {"SimplifiedLayerNormalization"}
    names |= {"LayerNormalization"} if opset < _LAYER_NORM else set()
    for node in model.graph.node:
        if not node.domain and node.op_type in names:
            node.domain = MICROSOFT
    told = {each.domain for each in model.opset_import}
    for domain in sorted({node.domain for node in model.graph.node} - told):
        model.opset_import.add(domain=domain, version=1)


def _sort(graph: onnx.GraphProto) -> None:
    """Put nodes behind those whose results they take, where one is before them."""
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    needs = {
        place: {makers[name] for name in _read(node) if name in makers}
        for place, node in enumerate(graph.node)
    }
    if all(maker < place for place, found in needs.items() for maker in found):
        return
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError:  # of which the checker tells
        return
    ranks = {tuple(graph.node[place].output): rank for rank, place in enumerate(order)}
    graph.node.sort(key=lambda node: ranks[tuple(node.output)])


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """Names of the values that a node takes, and of those that graphs inside it may take."""
    yield from node.input
    for attribute in node.attribute:
        for inner in (attribute.g, *attribute.graphs):
            yield from (value.name for value in inner.output)
            for each in inner.node:
                yield from _read(each)
