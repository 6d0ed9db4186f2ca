"""Rules for control flow that is known before anything runs."""

from __future__ import annotations

import onnx_ir as ir

from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.functions import copied
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import constant


@rule("If")
def branch(node: ir.Node, op: Builder) -> Outputs:
    """A constant condition takes one branch; the other one is not even read."""
    condition = constant(node.inputs[0])
    if condition is None:
        return None
    graph = node.attributes["then_branch" if condition.any() else "else_branch"].as_graph()
    values: dict[ir.Value, ir.Value | None] = {}
    for made in copied(graph, values):
        op.add(made)
    return [values.get(output, output) for output in graph.outputs]
