"""Rules of the normal form: functions from a node to the nodes that say the same more simply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import onnx_ir as ir

from tvm_ios.onnx.builder import Builder

__all__ = ["MICROSOFT", "RULES", "Outputs", "Rule", "rule"]

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""

Outputs: TypeAlias = ir.Value | Sequence[ir.Value | None] | None
Rule: TypeAlias = Callable[[ir.Node, Builder], Outputs]
"""Takes a node with all its attributes and static inputs; gives what replaces its outputs.

None where the node is as the rule would have it: who applies rules goes on until all say so.
``node.version`` is the opset in which the operator got the form that it has. The types and shapes
of its inputs are known, those of its outputs as far as onnx infers them.
"""

RULES: dict[str, list[Rule]] = {}
"""Rules by operator, in the order they are tried; those of other domains as ``domain.operator``."""


def rule(*op_types: str) -> Callable[[Rule], Rule]:
    """Have a function be a rule for nodes of these operators."""

    def add(function: Rule) -> Rule:
        for op_type in op_types:
            RULES.setdefault(op_type, []).append(function)
        return function

    return add
