"""ONNX models in their normal form: a small language that importers read without inferring.

In it all functions are written out, all constants folded, all shapes written down, and every
attribute has its value. It knows no negative axis, no ``auto_pad``, no operator under two names.
``rules/`` has what makes it so, node by node; here nodes are taken in order, so that what a rule
sees of its inputs is in the normal form, with shapes and constants known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import numpy as np
import onnx
import onnx.checker
import onnx.shape_inference
import onnx_ir as ir
from onnx_ir.passes.common import (
    InlinePass,
    LiftConstantsToInitializersPass,
    NameFixPass,
    RemoveUnusedNodesPass,
)

import tvm_ios.onnx.rules  # noqa: F401 - its files add rules
from tvm_ios.errors import ModelError
from tvm_ios.onnx.bfloat16 import widen
from tvm_ios.onnx.builder import LATER, NORMAL_OPSET, Builder
from tvm_ios.onnx.functions import expansion
from tvm_ios.onnx.inference import evaluated, infer, schema_of
from tvm_ios.onnx.rule import RULES, Outputs
from tvm_ios.onnx.values import constant, dtype_of, extents, is_static
from tvm_ios.support.error_text import lines_that_tell

__all__ = [
    "DRAWN",
    "ORIGIN",
    "REFUSED",
    "STANDARD",
    "described",
    "flattened",
    "normalised",
    "refusals",
    "walked",
]

STANDARD = ("", "ai.onnx")
"""Domains of the operators of ONNX itself."""
ORIGIN = "origin"
"""Key in ``meta`` of nodes: the name of a value that the model's node makes of which they came."""
REFUSED = "refused"
"""Key in ``meta`` of nodes: why a rule refused this one, which was left where it is."""
_CONSTANTS_ARE_NO_INPUTS = 4
"""The version of the file format before which each constant has to be an input as well."""
_MOST_NODES = 200_000
"""Nodes that a model may become, by loops that are unrolled and functions that are written out."""
DRAWN = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
"""Operators that draw numbers, and are never folded."""
_KEPT = {"ConvTranspose", "DequantizeLinear"} | DRAWN
"""Operators that are not folded: of weights in int8 the scale would be lost.

onnx's reference gets groups of transposed convolutions wrong.
"""

_OF_SCALARS = {"Range"}
"""Operators whose inputs have to be scalars, for onnx's inference; runtimes take one number."""


def normalised(model: ir.Model, shapes: Mapping[str, Sequence[int]]) -> ir.Model:
    """The model in its normal form; the model that is given must not be used any more.

    ``shapes`` has the extents of every input that is no parameter. Nodes that are in no normal form
    are left where they are: those of unknown operators, and all behind a result whose shape only
    values tell. Raises ModelError, with the node, where a model contradicts itself.
    """
    return walked(flattened(model, shapes))


def flattened(model: ir.Model, shapes: Mapping[str, Sequence[int]]) -> ir.Model:
    """The model without functions of its own, with shapes of inputs, every constant a weight."""
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        versions = graph.opset_imports or model.opset_imports
        for node in ir.traversal.RecursiveGraphIterator(graph):
            node.version = versions.get(node.domain, versions.get("ai.onnx", 1))
    InlinePass()(model)
    model.functions.clear()
    widen(model)
    graph = model.graph
    parameters = set(graph.initializers.values())
    graph.inputs[:] = [value for value in graph.inputs if value not in parameters]
    for value in graph.inputs:
        value.shape = ir.Shape(shapes[str(value.name)])
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    RemoveUnusedNodesPass()(model)
    model.ir_version = max(model.ir_version, _CONSTANTS_ARE_NO_INPUTS)
    return model


def walked(model: ir.Model, *, keeps_refused: bool = False) -> ir.Model:
    """The normal form of a model that is flattened.

    With ``keeps_refused`` a node that a rule refuses stays where it is, with the reason in its
    ``meta``, so that a model can be cut before it; onnx's checker would not accept it.
    """
    graph = model.graph
    names = [value.name for value in graph.outputs]
    _Walk(graph, keeps_refused=keeps_refused).run()
    _name_outputs(graph, names)
    RemoveUnusedNodesPass()(model)
    NameFixPass()(model)
    newest = [node.version or 0 for node in graph if node.domain in STANDARD]
    model.opset_imports[""] = max([NORMAL_OPSET, *newest])  # BitCast is of a newer one
    return model


def refusals(model: ir.Model) -> dict[ir.Node, str]:
    """Nodes that rules refused, and messages that name them."""
    return {
        node: f"{described(node)} {node.meta[REFUSED]}"
        for node in model.graph
        if REFUSED in node.meta
    }


def described(node: ir.Node) -> str:
    """The node's name and operator; its first output where it has no name."""
    domain = "" if node.domain in (*STANDARD, LATER) else f"{node.domain}."
    if node.name:
        return f"node {node.name!r} ({domain}{node.op_type})"
    output = next((value.name for value in node.outputs if value.name), "")
    return f"the node that makes {output!r} ({domain}{node.op_type})"


class _InvalidError(ModelError):
    """A node contradicts itself or its inputs, so that no runtime can run it."""


class _Walk:
    """Walk through the nodes of a graph, in order; each is replaced until no rule changes it."""

    def __init__(self, graph: ir.Graph, *, keeps_refused: bool) -> None:
        self._graph = graph
        self._keeps_refused = keeps_refused
        self._pending = list(reversed(graph))
        self._done: list[ir.Node] = []
        self._left: list[ir.Node] = []
        """Inner nodes of what was replaced, which still say that they use values."""
        self._names: Iterator[str] = (f"normal_{number}" for number in count())
        for node in graph:
            node.meta[ORIGIN] = next((value.name for value in node.outputs if value.name), "")
        graph.remove(self._pending)

    def run(self) -> None:
        """Take every node, in order, and put what became of them into the graph."""
        while self._pending:
            if len(self._pending) + len(self._done) > _MOST_NODES:
                raise ModelError(
                    f"becomes more than {_MOST_NODES} nodes once its loops are unrolled; give "
                    "fewer steps"
                )
            node = self._pending.pop()
            try:
                self._take(node)
            except ModelError as error:
                if isinstance(error, _InvalidError) or not self._keeps_refused:
                    raise ModelError(f"{described(node)} {error}") from error
                node.meta[REFUSED] = str(error)
                self._done.append(node)
        for node in self._left:
            _release(node)
        self._graph.extend(self._done)
        for node in self._done:
            for value in node.inputs:
                if value is not None and _is_loose(value):
                    self._graph.register_initializer(value)

    def _take(self, node: ir.Node) -> None:
        builder = Builder(node.name, self._names)
        if node.domain == LATER:
            self._replace(node, builder, node.meta["rest"](node, builder))
            return
        if not all(
            value is None
            or is_static(value)
            or isinstance(value.type, (ir.OptionalType, ir.SequenceType))
            for value in node.inputs
        ):
            self._done.append(node)
            return
        schema = schema_of(node.domain, node.op_type, node.version or NORMAL_OPSET)
        made = _by_rules(node, builder) if schema is None else self._applied(node, builder, schema)
        if made is None:
            _settle(node)
            self._done.append(node)
        else:
            self._replace(node, builder, made)

    def _applied(self, node: ir.Node, builder: Builder, schema: onnx.defs.OpSchema) -> Outputs:
        """Replacement of a node by a rule, by its constant value or its body; None if it stays."""
        opset, node.version = node.version or NORMAL_OPSET, schema.since_version
        _spell_out(node, schema)
        if node.op_type in _OF_SCALARS:
            _make_scalars(node, builder)
        if not _graphs_of(node):  # what graphs capture is not told to onnx
            try:
                infer(node, schema)
            except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
                raise _InvalidError(f"is no valid ONNX: {lines_that_tell(error, '')[0]}") from error
        made = _by_rules(node, builder)
        if made is not None:
            return made
        if node.outputs and all(map(_is_empty, node.outputs)):
            return [builder.const(np.zeros(extents(v), dtype_of(v))) for v in node.outputs]
        if node.op_type not in _KEPT and all(_is_tensor(value) for value in node.outputs):
            arrays = evaluated(node, schema.since_version)
            if arrays is not None:
                return [builder.const(array) for array in arrays]
        return expansion(node, schema, opset, builder)

    def _replace(self, node: ir.Node, builder: Builder, made: Outputs) -> None:
        outputs = (made,) if isinstance(made, ir.Value) else tuple(made or ())
        for old, new in zip(node.outputs, outputs, strict=False):
            if new is not None:
                old.replace_all_uses_with(new, replace_graph_outputs=True)
        _release(node)
        for graph in _graphs_of(node):
            self._left += ir.traversal.RecursiveGraphIterator(graph)
        for each in builder.nodes:
            each.meta[ORIGIN] = node.meta[ORIGIN]
        self._pending += reversed(builder.nodes)


def _graphs_of(node: ir.Node) -> list[ir.Graph]:
    """Graphs inside a node."""
    return [
        attribute.as_graph()
        for attribute in node.attributes.values()
        if attribute.type is ir.AttributeType.GRAPH
    ]


def _release(node: ir.Node) -> None:
    """Have a node that is gone use no value any more."""
    for place in range(len(node.inputs)):
        node.replace_input_with(place, None)


def _by_rules(node: ir.Node, builder: Builder) -> Outputs:
    """Replacement of a node by the first of its operator's rules that has one; None without."""
    name = node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
    for rule in RULES.get(name, ()):
        made = rule(node, builder)
        if made is not None:
            return made
    return None


def _spell_out(node: ir.Node, schema: onnx.defs.OpSchema) -> None:
    """Write down the attributes that a node leaves to their defaults."""
    for name, known in schema.attributes.items():
        usual = known.default_value
        if name not in node.attributes and usual.type != onnx.AttributeProto.UNDEFINED:
            node.attributes[name] = ir.serde.deserialize_attribute(usual)


def _make_scalars(node: ir.Node, builder: Builder) -> None:
    """Have constants of one number be of no axis."""
    for place, value in enumerate(node.inputs):
        array = constant(value)
        if array is not None and array.shape == (1,):
            node.replace_input_with(place, builder.const(array.reshape(())))


def _is_empty(value: ir.Value) -> bool:
    """Whether a value has no elements, so that it is a constant, whatever makes it."""
    return is_static(value) and 0 in extents(value) and value.dtype is not ir.DataType.STRING


def _is_tensor(value: ir.Value) -> bool:
    """Whether a value is no sequence, and not one of the optional values."""
    return value.type is None or isinstance(value.type, ir.TensorType)


def _is_loose(value: ir.Value) -> bool:
    """Whether a value is a constant that no graph has yet; one may be an output already."""
    return value.const_value is not None and not value.is_initializer()


def _settle(node: ir.Node) -> None:
    """Have a node that no rule wants otherwise be of the normal form's opset.

    What an operator has learned since the node's opset has a default that changes nothing, or a
    rule. Inputs at the end that are left out are not written down.
    """
    schema = schema_of(node.domain, node.op_type, NORMAL_OPSET)
    if schema is None or node.domain not in STANDARD:
        return
    node.version = NORMAL_OPSET
    _spell_out(node, schema)
    while node.inputs and node.inputs[-1] is None:
        node.resize_inputs(len(node.inputs) - 1)


def _name_outputs(graph: ir.Graph, names: Sequence[str | None]) -> None:
    """Give outputs the names they had; one that is an input, or another output, becomes a copy."""
    taken: set[ir.Value] = set()
    for place, name in enumerate(names):
        value = graph.outputs[place]
        if value.producer() is None or value in taken:
            copy = ir.node("Identity", [value], version=NORMAL_OPSET)
            copied = copy.outputs[0]
            copied.type, copied.shape = value.type, value.shape
            if _is_loose(value):
                value.name = f"{name}_constant"
                graph.register_initializer(value)
            graph.append(copy)
            graph.outputs[place] = value = copied
        value.name = name
        taken.add(value)
