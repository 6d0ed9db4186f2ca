"""Nodes of functions and of graphs inside nodes, copied to where they are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir

from tvm_ios.onnx.builder import NORMAL_OPSET, Builder
from tvm_ios.onnx.inference import type_of
from tvm_ios.onnx.rule import Outputs

__all__ = ["constants_of", "copied", "expansion", "inlined"]

_VOCABULARY: frozenset[str] = frozenset(
    {
        "Celu",
        "Clip",
        "Elu",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LayerNormalization",
        "LeakyRelu",
        "LogSoftmax",
        "Mish",
        "Relu",
        "Selu",
        "Shrink",
        "Softmax",
        "Softplus",
        "Softsign",
        "ThresholdedRelu",
    }
)
"""Functions of ONNX that importers know, and that are not written out."""


def expansion(node: ir.Node, schema: Any, opset: int, builder: Builder) -> Outputs:
    """Outputs of a node by the body that ONNX defines its operator with; None without a body.

    ``schema`` is an ``onnx.defs.OpSchema``, whose type stubs lack what it says of functions.
    """
    if node.op_type in _VOCABULARY or not (
        schema.has_function or schema.has_context_dependent_function
    ):
        return None
    if schema.has_function:
        body = schema.get_function_with_opset_version(
            _body_of(schema.function_opset_versions, opset)
        )
    else:
        versions = schema.context_dependent_function_opset_versions
        types = [onnx.TypeProto() if each is None else type_of(each) for each in node.inputs]
        body = schema.get_context_dependent_function_with_opset_version(
            _body_of(versions, opset),
            ir.to_proto(node).SerializeToString(),
            [each.SerializeToString() for each in types],
        )
    proto = onnx.FunctionProto.FromString(body)
    names = list(proto.output)
    known = {name for inner in proto.node for name in inner.output} | set(proto.input)
    del proto.output[:]
    proto.output.extend(name for name in names if name in known)  # what somebody asks for
    function = ir.from_proto(proto)
    versions = function.opset_imports
    for inner in ir.traversal.RecursiveGraphIterator(function.graph):
        usual = opset if inner.domain == node.domain else NORMAL_OPSET  # some bodies do not say
        inner.version = versions.get(inner.domain, usual)
    given = list(node.inputs) + [None] * (len(function.inputs) - len(node.inputs))
    values: dict[ir.Value, ir.Value | None] = dict(zip(function.inputs, given, strict=True))
    for made in copied(function, values, node.attributes):
        builder.add(made)
    made_of = {output.name: values[output] for output in function.outputs}
    return [made_of.get(name) for name in names]


def inlined(
    graph: ir.Graph,
    given: Sequence[ir.Value],
    constants: Mapping[ir.Value, ir.Value],
    builder: Builder,
) -> list[ir.Value]:
    """Outputs of the nodes of a graph inside a node, copied to where its inputs are given.

    ``constants`` are those of :func:`constants_of`, which all copies share.
    """
    values: dict[ir.Value, ir.Value | None] = dict(zip(graph.inputs, given, strict=True))
    values |= constants
    for made in copied(graph, values):
        builder.add(made)
    outputs = [values.get(output, output) for output in graph.outputs]
    return [output for output in outputs if output is not None]


def constants_of(graph: ir.Graph) -> dict[ir.Value, ir.Value]:
    """Constants of a graph inside a node, and for each a copy that belongs to no graph."""
    return {
        value: ir.Value(
            name=value.name, type=value.type, shape=value.shape, const_value=value.const_value
        )
        for value in graph.initializers.values()
    }


def copied(
    nodes: Iterable[ir.Node],
    values: dict[ir.Value, ir.Value | None],
    attributes: Mapping[str, ir.Attr] | None = None,
) -> Iterable[ir.Node]:
    """Copies of nodes, one after the other, in which ``values`` stand for others.

    Outputs are added to ``values``. ``attributes`` are those of the call of a function.
    """
    for node in nodes:
        yield _copied(node, values, attributes or {})


def _copied(
    node: ir.Node, values: dict[ir.Value, ir.Value | None], attributes: Mapping[str, ir.Attr]
) -> ir.Node:
    made = ir.Node(
        node.domain,
        node.op_type,
        [values.get(value, value) if value is not None else None for value in node.inputs],
        attributes=list(_resolved(node, values, attributes)),
        num_outputs=len(node.outputs),
        version=node.version,
    )
    for old, new in zip(node.outputs, made.outputs, strict=True):
        new.name = old.name
        values[old] = new
    return made


def _resolved(
    node: ir.Node, values: dict[ir.Value, ir.Value | None], attributes: Mapping[str, ir.Attr]
) -> Iterable[ir.Attr]:
    for name, attribute in node.attributes.items():
        if attribute.is_ref():
            meant = attributes.get(str(attribute.ref_attr_name))
            if meant is not None:
                yield ir.Attr(name, meant.type, meant.value)
        elif attribute.type is ir.AttributeType.GRAPH:
            yield ir.AttrGraph(name, _graph_copied(attribute.as_graph(), values, attributes))
        else:
            yield attribute


def _graph_copied(
    graph: ir.Graph, values: dict[ir.Value, ir.Value | None], attributes: Mapping[str, ir.Attr]
) -> ir.Graph:
    inputs = []
    for value in graph.inputs:
        made = ir.Value(name=value.name, type=value.type, shape=value.shape)
        inputs.append(made)
        values[value] = made
    constants = constants_of(graph)
    values |= constants
    nodes = [_copied(node, values, attributes) for node in graph]
    return ir.Graph(
        inputs,
        [values.get(value, value) for value in graph.outputs],  # type: ignore[misc]
        nodes=nodes,
        initializers=tuple(constants.values()),
        name=graph.name,
    )


def _body_of(versions: Iterable[int], opset: int) -> int:
    """The newest body of a function that an opset knows; its first where all are newer."""
    known = sorted(versions)
    return max((each for each in known if each <= opset), default=known[0])
