"""Rules for nodes that say what is known before anything runs: copies, extents, constants."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import constant, dtype_of, extents, optional, required

__all__ = [
    "alias",
    "eye",
    "inference",
    "shape",
    "size",
]


@rule("Identity")
def alias(node: ir.Node, op: Builder) -> Outputs:
    """A copy is what it copies."""
    del op
    return required(node)


@rule("Dropout")
def inference(node: ir.Node, op: Builder) -> Outputs:
    """Dropout gives its input in inference, and a mask that is true everywhere."""
    value = required(node)
    training = optional(node, 2)
    known = constant(training)
    if training is not None and (known is None or known.any()):
        raise ModelError("drops values at random, as in training; export the model for inference")
    dtype = dtype_of(value) if (node.version or 0) < 10 else bool
    return [value, op.const(np.ones(extents(value), dtype))][: len(node.outputs)]


@rule("Shape")
def shape(node: ir.Node, op: Builder) -> Outputs:
    """Extents of a tensor are constants."""
    value = required(node)
    begin = node.attributes.get_int("start", 0)
    end = node.attributes.get_int("end", None)
    return op.const(np.array(extents(value)[begin:end], "int64"))


@rule("Size")
def size(node: ir.Node, op: Builder) -> Outputs:
    """The number of elements is a constant."""
    value = required(node)
    return op.const(np.array(np.prod(extents(value), dtype="int64"), "int64"))


@rule("EyeLike")
def eye(node: ir.Node, op: Builder) -> Outputs:
    """Ones on a diagonal are a constant."""
    value = required(node)
    rows, columns = extents(value)
    kind = node.attributes.get_int("dtype", None)
    dtype = dtype_of(value) if kind is None else ir.DataType(kind).numpy()
    return op.const(np.eye(rows, columns, k=node.attributes.get_int("k", 0), dtype=dtype))
