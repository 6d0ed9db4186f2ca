"""Weights of products of few rows that stay bytes in memory, and data of float32.

Goes after fusing. Weights are found by their values, as in Relay: whatever said that they are
quantised, they are whole numbers of steps. Tables of which rows are taken are bytes as well.
"""

from __future__ import annotations

import math

import numpy as np
import tvm
from tvm import relax

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.precision.block_weights import (
    LEAST_WEIGHTS,
    MOST_ROWS,
    block_weights_of,
    bytes_of_table,
)
from tvm_ios.core.precision.low_precision import FLOAT32
from tvm_ios.core.precision.stored_type import FAKE_QUANTIZE
from tvm_ios.kernels.packed_products import Packing, tile_for
from tvm_ios.relax.element_wise import ELEMENT_WISE
from tvm_ios.relax.extract import Extraction, functions_of
from tvm_ios.relax.ir import Constant
from tvm_ios.relax.stored.bfloat16 import arguments_of
from tvm_ios.relax.stored.types_in_memory import PackedWeights, StoredCall, with_stored_types
from tvm_ios.relax.straight_line import ReadCall

__all__ = ["with_packed_weights"]

FOLLOWING = frozenset({*ELEMENT_WISE, FAKE_QUANTIZE, "matmul"})
"""The product, and operators that are computed on its sums, element by element."""


def with_packed_weights(extraction: Extraction, target: tvm.target.Target) -> tvm.IRModule:
    """Fused module whose products of few rows by weights of whole steps read bytes.

    So do rows that are taken from a table of one scale. Sums are taken in another order. The module
    itself where there is neither.
    """
    stored: dict[int, StoredCall] = {}
    rows = zip(
        extraction.line.calls, extraction.graph.operators, functions_of(extraction), strict=True
    )
    for index, (call, operator, function) in enumerate(rows):
        found = None if function is None else _packed(call, function, target)
        if found is None and operator.kind.startswith("take"):
            found = _with_table(call)
        if found is not None:
            stored[index] = found
    return with_stored_types(extraction, stored) if stored else extraction.module


def _packed(
    call: ReadCall, function: FusedFunction, target: tvm.target.Target
) -> StoredCall | None:
    """Call that reads packed weights; None where it has none, or loops of ours do not suit it."""
    calls = [each for each in function.calls if each.operator != "constant"]
    products = [each for each in calls if each.operator == "matmul"]
    if len(products) != 1:
        return None
    (product,) = products
    shape, count = product.result.shape, len(function.parameters)
    if not 0 < math.prod(shape) <= MOST_ROWS * shape[-1]:
        return None
    data, weight = product.operands
    if weight not in function.constants or data >= count or data == weight:
        return None
    if any(each.result.shape != shape or each.operator not in FOLLOWING for each in calls):
        return None
    values = _weights(call, weight)
    if values is None or values.ndim != 2 or function.parameters[data].dtype != FLOAT32:
        return None
    found = block_weights_of(values.T)
    if found is None:
        return None
    panel = tile_for(math.prod(shape[:-1]), shape[-1], target).panel
    return StoredCall(
        packed=PackedWeights(
            packing=Packing(outputs=shape[-1], panel=panel, block=found.block),
            data=data,
            weight=weight,
            arrays=tuple(map(relax.const, found.packed(panel))),
        )
    )


def _with_table(call: ReadCall) -> StoredCall | None:
    """Call that takes rows from a table of bytes; None where it takes none."""
    for place in range(len(arguments_of(call))):
        values = _weights(call, place)
        found = None if values is None else bytes_of_table(values)
        if found is not None:
            stored, steps = found
            return StoredCall(parameters={place: stored}, constants={place: relax.const(steps)})
    return None


def _weights(call: ReadCall, place: int) -> np.ndarray | None:
    """Constant of many numbers of float32; None of other arguments."""
    argument = arguments_of(call)[place]
    if not isinstance(argument, Constant):
        return None
    values = argument.value.numpy()
    return values if values.size >= LEAST_WEIGHTS and values.dtype == np.float32 else None
