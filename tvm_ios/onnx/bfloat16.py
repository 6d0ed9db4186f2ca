"""Numbers of bfloat16, computed in float32, which holds all of them and rounds less."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from tvm_ios.onnx.values import array_of

__all__ = ["widen"]

_NARROW, _WIDE = ir.DataType.BFLOAT16, ir.DataType.FLOAT
_TOLD = (
    "dtype",
    "output_datatype",
    "output_dtype",
    "precision",
    "softmax_precision",
    "stash_type",
)
"""Attributes that say the type of a result, or the one to compute in."""


def widen(model: ir.Model) -> None:
    """Make inputs and constants of bfloat16 into those of float32, and with them all that follows.

    Only a ``Cast`` to bfloat16 is left, whose rule rounds.
    """
    _widen_values(model.graph)
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        for name, attribute in list(node.attributes.items()):
            match attribute.type:
                case ir.AttributeType.GRAPH:
                    _widen_values(attribute.as_graph())
                case ir.AttributeType.TENSOR if attribute.value.dtype is _NARROW:
                    node.attributes[name] = ir.AttrTensor(name, _widened(attribute.value))
                case ir.AttributeType.INT if name in _TOLD and attribute.value == _NARROW:
                    node.attributes[name] = ir.AttrInt64(name, int(_WIDE))


def _widen_values(graph: ir.Graph) -> None:
    for value in (*graph.inputs, *graph.initializers.values()):
        if value.dtype is _NARROW:
            value.dtype = _WIDE
        if value.const_value is not None and value.const_value.dtype is _NARROW:
            value.const_value = _widened(value.const_value)


def _widened(tensor: ir.TensorProtocol) -> ir.Tensor[Any]:
    return ir.Tensor(array_of(tensor).astype("float32"), name=tensor.name)
