"""Values of a prepared module in bfloat16: what lies between operators, and weights of products."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relax

from tvm_ios.core.fused_function import PrimitiveCall
from tvm_ios.core.precision.low_precision import BFLOAT16, FLOAT32, LowPrecision
from tvm_ios.core.precision.low_values import LowOperator, LowValues
from tvm_ios.core.precision.stored_type import IN_BFLOAT16
from tvm_ios.plan.data_type import bfloat16_bits
from tvm_ios.relax.extract import Extraction, functions_of, kernel_of
from tvm_ios.relax.ir import Constant, is_call_tir
from tvm_ios.relax.schedules.packed import is_packed
from tvm_ios.relax.stored.types_in_memory import StoredCall, with_stored_types
from tvm_ios.relax.straight_line import Made, ReadCall, leaves

__all__ = ["PRODUCTS", "PRODUCT_WORDS", "arguments_of", "in_bfloat16", "is_made", "low_values"]

PRODUCTS = frozenset({"matmul", "nn.conv2d", "nn.conv2d_transpose", "nn.conv3d"})
"""Operators in notes whose second operand are weights."""
PRODUCT_WORDS = ("conv", "matmul", "einsum")
"""Beginnings of words in kinds of operators that are products, noted or not."""
LONELY = frozenset(
    {
        "argmax",
        "argmin",
        "argsort",
        "astype",
        "cast",
        "cumsum",
        "gather",
        "grid",
        "nms",
        "norm",
        "scatter",
        "searchsorted",
        "sort",
        "take",
        "topk",
        "unique",
        "variance",
    }
)
"""Words in kinds of operators that take numbers as places, compare them, or are norms: what those
read and write are sums that a transformer adds to layer by layer."""


def low_values(extraction: Extraction) -> LowValues:
    """Values of a prepared module of float32 that could be bfloat16."""
    weights = _weights(extraction)
    operators = []
    rows = zip(
        extraction.line.calls, extraction.graph.operators, functions_of(extraction), strict=True
    )
    for index, (call, operator, function) in enumerate(rows):
        read = arguments_of(call)
        words = set(operator.kind.split("_"))
        reads = tuple(dict.fromkeys(each.call for each in read if is_made(each)))
        floats = [tensor.dtype == FLOAT32 for tensor in call.outputs]
        operators.append(
            LowOperator(
                able=operator.schedulable
                and floats == [True]
                and LONELY.isdisjoint(words)
                and not is_packed(kernel_of(extraction.module, call)),
                is_product=any(word.startswith(PRODUCT_WORDS) for word in words),
                own_loops=function is not None and any(map(_slides, function.calls)),
                has_weights=index in weights,
                reads=reads,
                reads_apart=frozenset(reads),
                is_view=operator.view,
                reads_others=not all(map(is_made, read)),
            )
        )
    results = [leaf for leaf in leaves(extraction.line.result) if is_made(leaf)]
    return LowValues(operators=tuple(operators), outputs=tuple(leaf.call for leaf in results))


def in_bfloat16(extraction: Extraction, low: LowPrecision) -> tvm.IRModule:
    """Prepared module whose values in memory are bfloat16 where that is said."""
    weights, results = _weights(extraction), {*low.results}
    rounded: dict[int, Constant] = {}
    stored: dict[int, StoredCall] = {}
    for index, call in enumerate(extraction.line.calls):
        read = arguments_of(call) if is_call_tir(call.call) else []
        places = {n for n, each in enumerate(read) if is_made(each) and each.call in results}
        constants = {}
        if index in low.weights:
            place = weights[index]
            weight = read[place]
            if hash(weight) not in rounded:
                rounded[hash(weight)] = _rounded(weight)
            constants[place] = rounded[hash(weight)]
        result = IN_BFLOAT16 if index in results else None
        if places or constants or result:
            stored[index] = StoredCall(
                parameters=dict.fromkeys(sorted({*places, *constants}), IN_BFLOAT16),
                result=result,
                constants=constants,
            )
    return with_stored_types(extraction, stored)


def arguments_of(call: ReadCall) -> list[Any]:
    """Tensors that a call reads, in the order of its arguments."""
    given = call.call.args[1].fields if is_call_tir(call.call) else list(call.reads)
    return [leaf for each in given for leaf in leaves(call.reads.get(each, each))]


def is_made(value: Any) -> bool:
    """True for results of operators, False for inputs of the model and constants."""
    return isinstance(value, Made) and value.call >= 0


def _slides(call: PrimitiveCall) -> bool:
    """True for depthwise convolutions in layouts whose windows have loops of ours."""
    if call.operator != "nn.conv2d":
        return False
    attributes = dict(call.attributes)
    layout = str(attributes["data_layout"])
    letters = [each for each in layout if each.isalpha()]
    shape = zip(letters, call.result.shape, strict=True)
    channels = math.prod(extent for letter, extent in shape if letter in "Cc")
    return layout != "NCHW" and attributes["groups"] == channels


def _weights(extraction: Extraction) -> dict[int, int]:
    """Position of the constant weights of each product that has some, by operator."""
    found = {}
    for index, function in enumerate(functions_of(extraction)):
        if function is None:
            continue
        weights = (each.operands[1] for each in function.calls if each.operator in PRODUCTS)
        for place in weights:
            if place in function.constants and function.parameters[place].dtype == FLOAT32:
                found[index] = place
    return found


def _rounded(constant: Constant) -> Constant:
    """Constant of bfloat16 with the numbers nearest to those of one of float32."""
    array = tvm.runtime.empty(constant.value.shape, BFLOAT16)
    array.copyfrom(bfloat16_bits(constant.value.numpy()))
    return relax.const(array)
