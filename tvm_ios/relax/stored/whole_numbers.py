"""Whole numbers in the memory of a fused quantised module, for the numbers that they stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import tvm
from tvm import relax

from tvm_ios.core.precision.quantised_products import INPUTS, WEIGHTS, QuantisedProducts
from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.relax.extract import Extraction, functions_of, kernel_of
from tvm_ios.relax.ir import Constant
from tvm_ios.relax.notes import MOVING, rounded_type
from tvm_ios.relax.stored.bfloat16 import PRODUCT_WORDS, PRODUCTS, arguments_of, is_made
from tvm_ios.relax.stored.types_in_memory import StoredCall, with_stored_types
from tvm_ios.relax.straight_line import leaves

__all__ = ["in_whole_numbers"]

BYTES = StoredType(dtype="int8")
"""Type of weights, of which each stands for itself."""
NO_VNNI = "the target has no VNNI (avx512vnni)"
"""Reason why products multiply numbers of float32 on other processors."""


def in_whole_numbers(
    extraction: Extraction, *, products: bool
) -> tuple[tvm.IRModule, QuantisedProducts]:
    """Fused module in whose memory numbers are whole ones that stand for them.

    What kernels round is, and what is only moved of it. No number changes. Without ``products``
    those multiply numbers of float32. With it comes which products do.
    """
    weights = _weights(extraction) if products else {}
    stored, barred = _rounded_results(extraction, weights)
    kept = {index: each for index, each in stored.items() if index not in barred}
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
            constants[place], types[place] = bytes_of[key], BYTES
        if types or index in kept:
            stored_calls[index] = StoredCall(
                parameters=types, result=kept.get(index), constants=constants
            )
    others = _float32_products(extraction, stored, weights)
    told = QuantisedProducts(others=others, never="" if products else NO_VNNI)
    if not stored_calls:
        return extraction.module, told
    return with_stored_types(extraction, stored_calls), told


def _float32_products(
    extraction: Extraction,
    stored: Mapping[int, StoredType],
    weights: Mapping[int, tuple[int, int]],
) -> tuple[tuple[str, int], ...]:
    """Number of products that read rounded numbers and multiply them as float32, by reason."""
    found: Counter[str] = Counter()
    for index, function in enumerate(functions_of(extraction)):
        if function is None or index in weights:
            continue
        read = arguments_of(extraction.line.calls[index])
        if not any(is_made(each) and each.call in stored for each in read):
            continue
        places = [each.operands[1] for each in function.calls if each.operator in PRODUCTS]
        found.update(WEIGHTS if place in function.constants else INPUTS for place in places)
    return tuple(sorted(found.items()))


def _rounded_results(
    extraction: Extraction, weights: Mapping[int, tuple[int, int]]
) -> tuple[dict[int, StoredType], set[int]]:
    """Whole numbers that stand for results, by operator, and those that memory cannot have.

    Products read them only together with weights of whole numbers. A view is of the type of what it
    is a view of.
    """
    calls = extraction.line.calls
    found: dict[int, StoredType] = {}
    barred = {leaf.call for leaf in leaves(extraction.line.result) if is_made(leaf)}
    views: dict[int, list[int]] = {}
    for index, call in enumerate(calls):
        read = arguments_of(call)
        made = [each.call for each in read if is_made(each)]
        kernel, operator = kernel_of(extraction.module, call), extraction.graph.operators[index]
        words = set(operator.kind.split("_"))
        if kernel is None or len(call.outputs) != 1:
            barred.update((index, *made))
            continue
        is_product = any(word.startswith(PRODUCT_WORDS) for word in words)
        if is_product and index not in weights:
            barred.update(made)
        if operator.view:
            views[index] = made
        stored = rounded_type(kernel)
        if stored is not None and call.outputs[0].dtype == "float32":
            found[index] = stored.unsigned()
        elif made and len(made) == len(read) and (operator.view or words <= MOVING):
            types = {found.get(each) for each in made}
            if len(types) == 1 and (moved := types.pop()) is not None:
                found[index] = moved
    _bar_views(found, barred, views)
    return found, barred


def _weights(extraction: Extraction) -> dict[int, tuple[int, int]]:
    """Positions of data and weights of each product by whole numbers of a byte, by operator."""
    found = {}
    for index, function in enumerate(functions_of(extraction)):
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


def _bar_views(found: dict[int, StoredType], barred: set[int], views: dict[int, list[int]]) -> None:
    """Bar views of what is barred, and what is viewed by a barred one."""
    before = -1
    while len(barred) != before:
        before = len(barred)
        for index, made in views.items():
            if index in barred or not found.keys() >= {index, *made} or not barred.isdisjoint(made):
                barred.update((index, *made))
