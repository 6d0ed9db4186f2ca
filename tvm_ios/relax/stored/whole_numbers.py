"""Whole numbers in the memory of a fused quantised module, for the numbers that they stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import tvm
from tvm import relax

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.precision.low_precision import FLOAT32
from tvm_ios.core.precision.quantised_products import INPUTS, WEIGHTS, QuantisedProducts
from tvm_ios.core.precision.stored_type import WHOLE
from tvm_ios.core.precision.whole_values import WholeOperator, whole_results
from tvm_ios.relax.extract import Extraction, functions_of, kernel_of
from tvm_ios.relax.ir import Constant
from tvm_ios.relax.notes import MOVING, rounded_type
from tvm_ios.relax.stored.bfloat16 import PRODUCT_WORDS, PRODUCTS, arguments_of, is_made
from tvm_ios.relax.stored.types_in_memory import StoredCall, with_stored_types
from tvm_ios.relax.straight_line import leaves

__all__ = ["in_whole_numbers"]

NO_VNNI = "the target has no VNNI (avx512vnni)"
"""Reason why products multiply numbers of float32 on other processors."""


def in_whole_numbers(
    extraction: Extraction, *, products: bool
) -> tuple[tvm.IRModule, QuantisedProducts]:
    """Fused module in whose memory numbers are whole ones that stand for them.

    What kernels round is, and what is only moved of it. No number changes. Without ``products``
    those multiply numbers of float32. With it comes which products do.
    """
    functions = functions_of(extraction)
    weights = _weights(extraction, functions) if products else {}
    pairs = _pairs(extraction, functions) if products else {}
    operators = [
        _operator(extraction, index, has_weights=index in weights, pair=pairs.get(index))
        for index in range(len(functions))
    ]
    results = leaves(extraction.line.result)
    kept = whole_results(operators, {leaf.call for leaf in results if is_made(leaf)})
    bytes_of: dict[int, Constant] = {}
    stored_calls: dict[int, StoredCall] = {}
    for index, call in enumerate(extraction.line.calls):
        read = arguments_of(call)
        types = {
            place: kept[each.call]
            for place, each in enumerate(read)
            if is_made(each) and each.call in kept
        }
        constants = {}
        if index in weights and weights[index][0] in types:
            place = weights[index][1]
            key = hash(read[place])
            if key not in bytes_of:
                bytes_of[key] = relax.const(read[place].value.numpy().astype("int8"))
            constants[place], types[place] = bytes_of[key], WHOLE
        if types or index in kept:
            stored_calls[index] = StoredCall(
                parameters=types, result=kept.get(index), constants=constants
            )
    others = _float32_products(functions, operators, stored_calls)
    told = QuantisedProducts(others=others, never="" if products else NO_VNNI)
    if not stored_calls:
        return extraction.module, told
    return with_stored_types(extraction, stored_calls), told


def _operator(
    extraction: Extraction,
    index: int,
    *,
    has_weights: bool,
    pair: tuple[int, int] | None,
) -> WholeOperator:
    """What an operator does with whole numbers."""
    call, operator = extraction.line.calls[index], extraction.graph.operators[index]
    read = arguments_of(call)
    reads = tuple(each.call for each in read if is_made(each))
    kernel = kernel_of(extraction.module, call)
    if kernel is None or len(call.outputs) != 1:
        return WholeOperator(reads=reads, able=False)
    words = set(operator.kind.split("_"))
    is_product = any(word.startswith(PRODUCT_WORDS) for word in words)
    stored = rounded_type(kernel) if call.outputs[0].dtype == FLOAT32 else None
    return WholeOperator(
        reads=reads,
        rounds_to=stored,
        only_moves=len(reads) == len(read) and (operator.view or words <= MOVING),
        is_view=operator.view,
        multiplies=frozenset(reads if is_product and not has_weights and pair is None else ()),
        pair=pair,
    )


def _float32_products(
    functions: Sequence[FusedFunction | None],
    operators: Sequence[WholeOperator],
    stored: Mapping[int, StoredCall],
) -> tuple[tuple[str, int], ...]:
    """Number of products that read rounded numbers and multiply them as float32, by reason."""
    found: Counter[str] = Counter()
    for index, function in enumerate(functions):
        if function is None or (index in stored and stored[index].multiplies_bytes):
            continue
        if all(operators[each].rounds_to is None for each in operators[index].reads):
            continue
        places = [each.operands[1] for each in function.calls if each.operator in PRODUCTS]
        found.update(WEIGHTS if place in function.constants else INPUTS for place in places)
    return tuple(sorted(found.items()))


def _pairs(
    extraction: Extraction, functions: Sequence[FusedFunction | None]
) -> dict[int, tuple[int, int]]:
    """Operators whose results a product of two tensors reads, by that product."""
    found = {}
    for index, function in enumerate(functions):
        calls = () if function is None else function.calls
        products = [each for each in calls if each.operator in PRODUCTS]
        if len(products) != 1 or products[0].operator != "matmul":
            continue
        read = dict(enumerate(arguments_of(extraction.line.calls[index])))
        made = [read[each].call for each in products[0].operands if is_made(read.get(each))]
        if len(made) == 2 and made[0] != made[1]:
            found[index] = made[0], made[1]
    return found


def _weights(
    extraction: Extraction, functions: Sequence[FusedFunction | None]
) -> dict[int, tuple[int, int]]:
    """Positions of data and weights of each product by whole numbers of a byte, by operator."""
    found = {}
    for index, function in enumerate(functions):
        if function is None:
            continue
        products = [each for each in function.calls if each.operator in PRODUCTS]
        if len(products) != 1:
            continue
        data, place = products[0].operands
        if place not in function.constants or data >= len(function.parameters):
            continue
        values = arguments_of(extraction.line.calls[index])[place].value.numpy()
        if values.dtype == np.float32 and _are_bytes(values):
            found[index] = data, place
    return found


def _are_bytes(values: np.ndarray) -> bool:
    whole = np.rint(values)
    return bool((whole == values).all() and values.min() >= -128 and values.max() <= 127)
