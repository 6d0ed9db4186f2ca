"""A model cut in two: nodes that compiled code lacks with all behind them, and those before.

The model itself is cut, not its normal form: so onnxruntime runs nodes as their author wrote them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from tvm_ios.onnx.normal_form import ORIGIN, walked

__all__ = ["Cut", "cut", "origin"]

_PRODUCTS = {"Conv", "ConvTranspose", "MatMul"}
"""Operators of the normal form that compiling is worth its while for."""
_PICKS = {"Cast", "Equal", "Gather", "Greater", "Less", "Slice", "Squeeze", "Unsqueeze"}
"""Operators that take a part of a tensor or look at it, and cost next to nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The two parts of a model."""

    front: ir.Model
    """The first part, in its normal form; it has the inputs of the whole model."""
    rest: ir.Model
    """The second part; its inputs are outputs of the front, or inputs of the whole model."""
    outputs: tuple[str, ...]
    """Names of the outputs of the whole model, in order."""
    rest_nodes: int
    """Number of nodes in the second part."""
    all_nodes: int
    """Number of nodes of the whole model, constants aside."""


def origin(node: ir.Node) -> str:
    """Name of a value that is made by the model's node which a node of the normal form is of."""
    return str(node.meta.get(ORIGIN, ""))


def cut(model: ir.Model, refused: Collection[str]) -> Cut | None:
    """Two parts of a flattened model, of which the second begins with the makers of ``refused``.

    None where that cannot be: the front would have no product of matrices and no convolution, or
    the nodes of the rest are of different opsets.
    """
    graph = model.graph
    rest = _with_picks(graph, _with_all_behind(graph, refused))
    versions = {(each.domain, each.version) for node in rest for each in _with_inner(node)}
    by_rest = {value for node in rest for value in node.outputs}
    read = _read(graph, rest)
    between = [value for value in read if value.producer() and value not in by_rest]
    own = [value for value in graph.outputs if value not in by_rest]
    fronts = list(dict.fromkeys([*own, *between]))
    if not rest or not fronts or len(versions) > len(dict(versions)):
        return None
    front = walked(_part(model, graph.inputs, fronts))
    if not any(node.op_type in _PRODUCTS for node in front.graph):
        return None
    given = [*between, *(value for value in graph.inputs if value in read)]
    behind = _part(model, given, [value for value in graph.outputs if value in by_rest])
    behind.opset_imports.clear()
    behind.opset_imports.update({domain: version or 1 for domain, version in versions})
    _join(front.graph, behind.graph, kept=len(own))
    return Cut(
        front=front,
        rest=behind,
        outputs=tuple(str(value.name) for value in graph.outputs),
        rest_nodes=len(rest),
        all_nodes=len(graph),
    )


def _with_all_behind(graph: ir.Graph, refused: Collection[str]) -> list[ir.Node]:
    """Nodes that make one of the values named, and all that need what they make; in order."""
    found: dict[ir.Value, None] = {}
    nodes = []
    for node in graph:
        names = {value.name for value in node.outputs}
        if not names.isdisjoint(refused) or any(each in found for each in _read_by(node, graph)):
            nodes.append(node)
            found |= dict.fromkeys(node.outputs)
    return nodes


def _with_picks(graph: ir.Graph, rest: list[ir.Node]) -> list[ir.Node]:
    """The nodes of the rest, and those before them that only pick what it reads.

    A detection network looks at each of its ninety classes by a few nodes, all parts of one tensor:
    that is handed over then, in place of 180 small ones.
    """
    found = set(rest)
    while True:
        read = _read(graph, found)
        between = {value for value in read if value.producer() not in found}
        groups: dict[frozenset[ir.Value], set[ir.Node]] = {}
        for node in dict.fromkeys(value.producer() for value in between):
            if node is not None and node.op_type in _PICKS and _is_only_for(node, found):
                made = frozenset(each for each in _read_by(node, graph) if each.producer())
                groups.setdefault(made, set()).add(node)
        picks = {
            node
            for made, nodes in groups.items()
            if len(made - between) <= len(nodes)
            for node in nodes
        }
        if not picks:
            return [node for node in graph if node in found]
        found |= picks


def _is_only_for(node: ir.Node, nodes: Collection[ir.Node]) -> bool:
    """Whether these nodes alone read what a node makes, and no graph inside another node."""
    return all(
        user in nodes and not value.is_graph_output()
        for value in node.outputs
        for user in value.consumers()
    )


def _read(graph: ir.Graph, nodes: Collection[ir.Node]) -> dict[ir.Value, None]:
    """Values of a graph that nodes read, in order."""
    return dict.fromkeys(value for node in nodes for value in _read_by(node, graph))


def _with_inner(node: ir.Node) -> Iterator[ir.Node]:
    """A node, and those of the graphs inside it."""
    yield node
    for attribute in node.attributes.values():
        if attribute.type is ir.AttributeType.GRAPH:
            yield from ir.traversal.RecursiveGraphIterator(attribute.as_graph())


def _read_by(node: ir.Node, graph: ir.Graph) -> Iterator[ir.Value]:
    """Values of a graph that a node takes as inputs, or in the graphs inside it."""
    for each in _with_inner(node):
        yield from (value for value in each.inputs if value is not None and value.graph is graph)


def _part(model: ir.Model, inputs: Any, outputs: Any) -> ir.Model:
    """A copy of the nodes between some values of a model."""
    graph = ir.convenience.extract(model.graph, list(inputs), list(outputs))
    return ir.Model(graph, ir_version=model.ir_version)


def _join(front: ir.Graph, rest: ir.Graph, *, kept: int) -> None:
    """Write down what the front tells of the inputs of the rest: types, shapes, and constants.

    Outputs of the front from ``kept`` on are only for the rest, and go where they are constant.
    """
    known = {value.name: value for value in front.outputs}
    for value in list(rest.inputs):
        made = known.get(value.name)
        if made is None:
            continue
        value.type, value.shape = made.type, made.shape
        source = made.producer()
        if source is None or source.op_type != "Identity" or made in front.outputs[:kept]:
            continue
        constant = source.inputs[0]
        if constant is None or constant.const_value is None:
            continue
        rest.inputs.remove(value)
        value.const_value = constant.const_value
        rest.register_initializer(value)
        front.outputs.remove(made)
        front.remove(source, safe=True)
