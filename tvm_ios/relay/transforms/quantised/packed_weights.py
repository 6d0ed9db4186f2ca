"""Weights of dense layers on few rows that stay bytes in memory, and data of float32.

Goes after fusing. Weights are found by their values, as in
:mod:`~tvm_ios.relay.transforms.quantised.whole_weights`, whatever said that they are quantised;
here blocks of a column's weights may have scales and zero points of their own. A product of few
rows takes as long as its weights take to be read, and bytes are a quarter. Those of many rows stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import tvm
from tvm import relay

from tvm_ios.core.precision.block_weights import (
    LEAST_BLOCK,
    LEAST_WEIGHTS,
    MOST_ROWS,
    block_weights_of,
    bytes_of_table,
    may_be_steps,
)
from tvm_ios.core.precision.low_precision import FLOAT32
from tvm_ios.core.precision.stored_type import WHOLE, StoredType
from tvm_ios.kernels.packed_products import Packing, tile_for
from tvm_ios.relay.constants import constant, equal_constants, values_of
from tvm_ios.relay.dataflow import (
    all_calls,
    copy_call,
    is_call_of,
    local_function,
    rebuild,
    with_body,
)
from tvm_ios.relay.extract import Extraction
from tvm_ios.relay.functions.packed_product import packed_dense
from tvm_ios.relay.functions.primitive import type_elements
from tvm_ios.relay.functions.stored_types import (
    StoredFunction,
    computed_in_float32,
    typed,
    with_stored_types,
)
from tvm_ios.relay.packed_products.kernel import packed_product

__all__ = ["may_read_bytes", "with_packed_weights"]

MATRIX = 2
"""Dimensions of weights."""
PRODUCTS = ("nn.contrib_dense_pack", "nn.dense")


def may_read_bytes(call: relay.Call) -> bool:
    """True for a dense layer, not fused yet, whose weights likely stay bytes."""
    if not is_call_of(call, "nn.dense"):
        return False
    weight, turned = call.args[1], False
    while is_call_of(weight, "transpose"):
        weight, turned = weight.args[0], not turned
    if not isinstance(weight, relay.Constant) or len(weight.data.shape) != MATRIX:
        return False
    if math.prod(weight.data.shape) < LEAST_WEIGHTS or str(weight.data.dtype) != FLOAT32:
        return False
    if not _has_few_rows(call):
        return False
    values = np.from_dlpack(weight.data)  # its own memory: weights may be large
    return may_be_steps((values.T if turned else values)[0, :LEAST_BLOCK])


def with_packed_weights(extraction: Extraction, target: tvm.target.Target) -> tvm.IRModule:
    """Fused module whose products of few rows by weights of whole steps read bytes.

    So do rows that are taken from a table of one scale. Sums are taken in another order. The module
    itself where there is neither.
    """
    found = {
        call: packed
        for call in extraction.calls
        if local_function(call) is not None
        and (packed := _packed(call, target) or _with_table(call)) is not None
    }
    if not found:
        return extraction.module
    equal = equal_constants(each for packed in found.values() for each in packed.constants)

    def call_of(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        if call not in found:
            return relay.Call(call.op, arguments, call.attrs, call.type_args, call.span)
        first, *others = (equal.get(each, each) for each in found[call].constants)
        given = [*arguments, *others]
        given[found[call].weight] = first
        return relay.Call(found[call].function, given, call.attrs, call.type_args, call.span)

    module = extraction.module
    return with_body(module, rebuild(module["main"].body, {}, call_of))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packed:
    """A fused function that reads packed weights."""

    function: relay.Function
    weight: int
    """Position of the weights."""
    constants: tuple[relay.Constant, ...]
    """Weights, scales, and zero points if there are any; all but the weights are the last
    arguments."""


def _packed(call: relay.Call, target: tvm.target.Target) -> _Packed | None:
    """Function for a call that reads packed weights; None where it has none, or no such kernel."""
    stored = computed_in_float32(call.op)
    function = stored.computed
    products = [each for each in all_calls(function.body) if is_call_of(each, *PRODUCTS)]
    if len(products) != 1:
        return None
    (product,) = products
    if not _has_few_rows(product):
        return None
    *rows, outputs = (int(extent) for extent in product.checked_type.shape)
    places = {parameter: number for number, parameter in enumerate(function.params)}
    data, weight = (places.get(argument) for argument in product.args)
    if data is None or weight is None or data == weight:
        return None
    if not stored.parameters.keys().isdisjoint((data, weight)) or not _is_weight(call, weight):
        return None
    weights = values_of(call.args[weight])
    if weights.ndim > MATRIX:  # packed by TVM
        weights = weights.transpose(0, 2, 1).reshape(outputs, -1)
    found = block_weights_of(weights)
    if found is None:
        return None
    panel = tile_for(math.prod(rows), outputs, target).panel
    packing = Packing(outputs=outputs, panel=panel, block=found.block)
    return _function(stored, product, weight, packing, found.packed(panel), target)


def _has_few_rows(product: relay.Call) -> bool:
    """True for a product of some rows, but not many; none are told where a shape is dynamic."""
    elements = type_elements(product.checked_type)
    return 0 < elements <= MOST_ROWS * int(product.checked_type.shape[-1])


def _is_weight(call: relay.Call, place: int) -> bool:
    argument = call.args[place]
    if not isinstance(argument, relay.Constant) or str(argument.data.dtype) != FLOAT32:
        return False
    return bool(math.prod(argument.data.shape) >= LEAST_WEIGHTS)


def _function(
    stored: StoredFunction,
    product: relay.Call,
    weight: int,
    packing: Packing,
    arrays: list[np.ndarray],
    target: tvm.target.Target,
) -> _Packed | None:
    function = stored.computed
    parameters = list(function.params)
    made = [
        relay.Var(name, relay.TensorType(array.shape, FLOAT32))
        for name, array in zip(("steps", "scales", "zeros"), arrays, strict=False)
    ]
    parameters[weight] = made[0]
    parameters += made[1:]
    known: dict[relay.Expr, relay.Expr] = {
        product: packed_dense(product.args[0], made[0], made[1], *made[2:], packing=packing)
    }
    body = rebuild(function.body, known, copy_call)
    changed = typed(relay.Function(parameters, body, attrs=function.attrs))
    if packed_product(changed, target) is None:
        return None
    types: dict[int, StoredType] = {**stored.parameters, weight: WHOLE}
    return _Packed(
        function=with_stored_types(changed, types, stored.result),
        weight=weight,
        constants=tuple(map(constant, arrays)),
    )


def _with_table(call: relay.Call) -> _Packed | None:
    """Function for a call that takes rows from a table of bytes; None where it takes none."""
    stored = computed_in_float32(call.op)
    function, calls = stored.computed, all_calls(stored.computed.body)
    places = {parameter: number for number, parameter in enumerate(function.params)}
    read = [each.args[0] for each in calls if is_call_of(each, "take")]
    if len(read) != 1 or sum(list(each.args).count(read[0]) for each in calls) != 1:
        return None
    table = places.get(read[0])
    if table is None or table in stored.parameters or not _is_weight(call, table):
        return None
    found = bytes_of_table(values_of(call.args[table]))
    if found is None:
        return None
    type_, steps = found
    return _Packed(
        function=with_stored_types(function, {**stored.parameters, table: type_}, stored.result),
        weight=table,
        constants=(constant(steps),),
    )
