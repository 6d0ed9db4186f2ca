"""Products of all rows at once, from batched products with one matrix for the whole batch.

PyTorch's ``linear`` on sequences comes from TVM's importer as a batched product, with its weights
repeated for every entry of the batch: for an image of 197 patches, 197 copies. TVM folds them into
constants, gigabytes a layer, and a kernel would read each of them.
"""

from __future__ import annotations

from math import prod

import tvm
from tvm import relay

from tvm_ios.relay.dataflow import copy_call, graph_order, is_call_of, rebuild, with_body
from tvm_ios.relay.functions.shapes import RESHAPES, shape_of

__all__ = ["multiply_rows_at_once"]

PRODUCT = "nn.batch_matmul"
REPEATING = (*RESHAPES, "broadcast_to", "repeat")
"""Operators that copy a matrix where its two dimensions stay the last ones."""


def multiply_rows_at_once(module: tvm.IRModule) -> tvm.IRModule:
    """Module with ``nn.dense`` for each product whose right side is copies of one matrix.

    Sums are taken over the same products, so only the order of additions may differ. Without such a
    product the module itself is returned.
    """
    main = module["main"]
    matrices = {
        each: matrix
        for each in graph_order(main.body)
        if is_call_of(each, PRODUCT) and (matrix := _only_matrix(each)) is not None
    }
    if not matrices:
        return module

    known: dict[relay.Expr, relay.Expr] = {}

    def multiply(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        if call not in matrices:
            return copy_call(call, arguments)
        matrix = known[matrices[call]]
        *_, depth = shape_of(call.args[0])
        rows = relay.reshape(arguments[0], (-1, depth))
        weights = matrix if call.attrs.transpose_b else relay.transpose(matrix, (1, 0))
        product = relay.nn.dense(rows, weights, out_dtype=call.attrs.out_dtype or None)
        return relay.reshape(product, shape_of(call))

    return with_body(module, rebuild(main.body, known, multiply))


def _only_matrix(product: relay.Call) -> relay.Expr | None:
    """Matrix that the whole batch is multiplied with; None where there are several."""
    left, right = product.args
    rows = shape_of(left)
    if product.attrs.transpose_a or len(rows) != 3 or rows[0] != shape_of(product)[0]:
        return None
    copies, *sides = shape_of(right)
    while len(shape_of(right)) > 2:
        if not is_call_of(right, *REPEATING) or prod(shape_of(right.args[0])) == 0:
            return None
        right = right.args[0]
        if shape_of(right)[-2:] != tuple(sides):
            return None
    if shape_of(right) != tuple(sides):
        return None
    return right if copies > 1 or _is_stored(right) else None


def _is_stored(matrix: relay.Expr) -> bool:
    """True if a matrix is not computed in every run, so that it is laid out once."""
    while is_call_of(matrix, "transpose"):
        matrix = matrix.args[0]
    return isinstance(matrix, (relay.Var, relay.Constant))
