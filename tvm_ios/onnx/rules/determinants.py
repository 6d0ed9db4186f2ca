"""Rules for ``Det``: small determinants are sums of products."""

from __future__ import annotations

from functools import reduce
from itertools import permutations

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import extents, required

__all__ = [
    "determinant",
]

_LARGEST = 3
"""Rows above which a determinant by products would lose too many digits."""


@rule("Det")
def determinant(node: ir.Node, op: Builder) -> Outputs:
    """A determinant of up to three rows, by Leibniz' formula."""
    value = required(node)
    *stack, rows, columns = extents(value)
    if not 1 <= rows <= _LARGEST or rows != columns:
        return None
    flat = op.reshape(value, [*stack, rows * columns])
    elements = [
        op.op("Gather", flat, op.const(np.array(place)), axis=len(stack))
        for place in range(rows * columns)
    ]
    made = None
    for order in permutations(range(rows)):
        factors = [elements[row * columns + column] for row, column in enumerate(order)]
        product = reduce(lambda left, right: op.op("Mul", left, right), factors)
        odd = sum(one > other for place, one in enumerate(order) for other in order[place:]) % 2
        made = product if made is None else op.op("Sub" if odd else "Add", made, product)
    return made
