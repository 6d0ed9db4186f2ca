"""Rules for ``Clip``: whatever form it has, it becomes ``Max`` and ``Min``."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import constant, dtype_of, optional, required

__all__ = [
    "clip",
]

_BY_INPUT = 11
"""The opset from which the bounds are inputs."""


@rule("Clip")
def clip(node: ir.Node, op: Builder) -> Outputs:
    """Two constant bounds stay; one is a maximum or a minimum, as are those that the run tells."""
    value, low, high = required(node), optional(node, 1), optional(node, 2)
    if (node.version or 0) < _BY_INPUT:
        bounds = [node.attributes.get_float(name) for name in ("min", "max")]
        with np.errstate(over="ignore"):  # the usual bounds are infinite in 16 bits
            numbers = np.array(bounds).astype(dtype_of(value))
        return op.op("Clip", value, *(op.const(each) for each in numbers))
    lowest, highest = constant(low), constant(high)
    if lowest is not None and highest is not None and lowest <= highest:
        return None
    value = value if low is None else op.op("Max", value, low)
    return value if high is None else op.op("Min", value, high)
