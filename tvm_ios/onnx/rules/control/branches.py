"""Rules for ``If``: the branch that is taken, or both of them where only the run tells."""

from __future__ import annotations

from functools import partial

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.functions import constants_of, inlined
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import constant, dtype_of, extents, is_static, required

__all__ = [
    "branch",
]

_MOST_OF_BOTH = 100
"""Nodes of both branches that are computed to take the results of one."""
_FAILING = ("Div", "Mod")
"""Operators that end the process, for whole numbers, where a branch would have kept from it."""


@rule("If")
def branch(node: ir.Node, op: Builder) -> Outputs:
    """A constant condition takes one branch; the other one is not even read.

    A condition that the run tells takes results of one of both.
    """
    condition = constant(node.inputs[0])
    if condition is None:
        return _both(node, op)
    graph = node.attributes["then_branch" if condition.any() else "else_branch"].as_graph()
    return inlined(graph, [], constants_of(graph), op)


def _both(node: ir.Node, op: Builder) -> Outputs:
    condition = required(node)
    graphs = [node.attributes[f"{which}_branch"].as_graph() for which in ("then", "else")]
    size = sum(len(list(ir.traversal.RecursiveGraphIterator(graph))) for graph in graphs)
    if size > _MOST_OF_BOTH:
        raise ModelError(
            f"takes one of two branches of {size} nodes by a value ({condition.name!r}) that only "
            "the run tells; make it a constant"
        )
    results = [inlined(graph, [], constants_of(graph), op) for graph in graphs]
    failing = [made for made in op.nodes if made.op_type in _FAILING]
    scalar = op.op("Reshape", condition, op.const(np.zeros(0, "int64")))
    inputs = [scalar, *results[0], *results[1]]
    return op.later(node, partial(_chosen, failing), inputs, len(node.outputs))


def _chosen(failing: list[ir.Node], node: ir.Node, op: Builder) -> Outputs:
    """Results of one of both branches, whose shapes are known now."""
    count = len(node.outputs)
    pairs = [(required(node, 1 + at), required(node, 1 + at + count)) for at in range(count)]
    if not all(_is_real(each.outputs[0]) for each in failing):
        raise ModelError("takes one of two branches that may divide by zero; divide before")
    for pair in pairs:
        if not all(map(is_static, pair)) or len({(dtype_of(v), extents(v)) for v in pair}) > 1:
            raise ModelError(
                "takes one of two branches, with results of different shapes, by a value that "
                "only the run tells; make it a constant"
            )
    return [op.op("Where", required(node), *pair) for pair in pairs]


def _is_real(value: ir.Value) -> bool:
    return value.dtype is not None and value.dtype.is_floating_point()
