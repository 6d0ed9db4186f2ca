"""Nodes of ONNX that have a converter, and why others have none."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import NORMAL_OPSET
from tvm_ios.onnx.inference import schema_of
from tvm_ios.onnx.normal_form import DRAWN, REFUSED, STANDARD
from tvm_ios.onnx.values import is_static
from tvm_ios.relay.frontends.onnx.converters import CONVERTERS

__all__ = ["require_known"]

_DRAWS = (
    "draws numbers, and compiled code would draw the same in each run; make them an input of the "
    "model"
)
_BY_VALUE = (
    "gives a result whose shape only values tell, and compiled code has static shapes; end the "
    "model before it"
)
_REASONS = {
    **dict.fromkeys(DRAWN, _DRAWS),
    "Det": "has more than three rows; give fewer, or save the model without it",
    "If": "takes one of two branches by a value that only the run tells; make it a constant",
    "Loop": "is a loop whose length only the run tells; give its number of rounds as a constant",
    "Scan": "is a loop whose length only the run tells; give its inputs static shapes",
}
"""Reasons why straight-line code of static shapes has no such node, by operator."""


def require_known(node: ir.Node) -> None:
    """Refuse a node that no converter is for, with the nearest thing that works."""
    if REFUSED in node.meta:
        raise ModelError(node.meta[REFUSED])
    if node.domain not in STANDARD:
        raise ModelError(
            f"is of the domain {node.domain!r}, which is not known; save the model with operators "
            "of ONNX alone"
        )
    if node.op_type in _REASONS:
        raise ModelError(_REASONS[node.op_type])
    if any(isinstance(value.type, (ir.OptionalType, ir.SequenceType)) for value in node.outputs):
        raise ModelError("gives a sequence, or what is optional; end the model before it")
    if not all(is_static(value) for value in node.outputs if value.name):
        raise ModelError(_BY_VALUE)
    if node.op_type not in CONVERTERS:
        raise ModelError("is an operator that is not known; save the model without it")
    newest = onnx.defs.onnx_opset_version()
    schemas = [schema_of(node.domain, node.op_type, each) for each in (NORMAL_OPSET, newest)]
    for name in node.attributes:
        if not any(schema is not None and name in schema.attributes for schema in schemas):
            raise ModelError(f"has the attribute {name}, of an older form; save it in opset 21")
