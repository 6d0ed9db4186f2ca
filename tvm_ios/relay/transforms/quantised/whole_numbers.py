"""Whole numbers that quantised models have between operators, before and after fusing.

Before fusing, whole numbers become the numbers of float32 that they stand for: what TVM fuses,
lays out and computes is a model of float32, in which ``tvm_ios.fake_quantize`` makes some numbers.
After fusing, what such an operator makes lies in memory as whole numbers again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import tvm
from tvm import relay

from tvm_ios.core.precision.stored_type import StoredType
from tvm_ios.core.precision.whole_values import WholeOperator, whole_results
from tvm_ios.relay.dataflow import (
    all_calls,
    copy_call,
    graph_order,
    is_call_of,
    local_function,
    producers_of,
    readers_of,
    rebuild,
    with_body,
)
from tvm_ios.relay.extract import Extraction
from tvm_ios.relay.functions.quantised import (
    DEQUANTIZE,
    QUANTIZE,
    fake_quantize,
    is_fake_quantize,
    stored_type_of,
)
from tvm_ios.relay.functions.stored_types import typed, with_stored_types
from tvm_ios.relay.transforms.bfloat16 import PRODUCTS
from tvm_ios.relay.transforms.quantised.tables import with_table
from tvm_ios.relay.transforms.quantised.whole_weights import WholeWeights, whole_weights_of
from tvm_ios.support.exact_bits import bits_may_change

__all__ = [
    "in_numbers",
    "in_whole_numbers",
    "only_moves",
    "whole_numbers_of",
    "with_products_for_libraries",
]

MOVES = frozenset(
    {
        *("nn.max_pool2d", "nn.global_max_pool2d", "nn.batch_flatten", "nn.depth_to_space"),
        *("copy", "expand_dims", "reshape", "reverse", "squeeze", "strided_slice", "transpose"),
    }
)
"""Operators of one tensor whose results are some of its elements."""

STEPS = ("add", "multiply", "subtract")
"""Operators of two tensors between products and their results."""
JOINS = frozenset({"concatenate", "layout_transform"})
"""Operators that the pipeline makes more of, and whose results are elements of their operands."""


def in_numbers(module: tvm.IRModule) -> tvm.IRModule:
    """Module in which whole numbers that are only moved are the numbers that they stand for.

    The module itself where there are none.
    """
    body = module["main"].body
    if not any(is_call_of(call, DEQUANTIZE) for call in all_calls(body)):
        return module
    numbers = _Numbers()

    def call_of(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        copied = copy_call(call, arguments)
        if not is_call_of(copied, DEQUANTIZE):
            return copied
        whole, stored = arguments[0], stored_type_of(copied)
        return numbers.of(whole, stored) or numbers.own(whole, stored) or copied

    return with_body(module, rebuild(body, {}, call_of))


class _Numbers:
    """Numbers that were made in place of whole ones, by these."""

    def __init__(self) -> None:
        self._made: dict[tuple[relay.Expr, StoredType], relay.Expr | None] = {}

    def of(self, whole: relay.Expr, stored: StoredType) -> relay.Expr | None:
        """Numbers that whole numbers of a type stand for; None where others made them."""
        if is_call_of(whole, QUANTIZE) and stored_type_of(whole) != stored:
            return None
        if is_call_of(whole, "cast") and str(whole.attrs.dtype) in ("int32", stored.dtype):
            return self.of(whole.args[0], stored) or self.own(whole, stored)
        key = whole, stored
        if key not in self._made:
            self._made[key] = self._new(whole, stored)
        return self._made[key]

    def _new(self, whole: relay.Expr, stored: StoredType) -> relay.Expr | None:
        if is_call_of(whole, QUANTIZE):
            return fake_quantize(whole.args[0], stored)
        if not is_call_of(whole, *MOVES):
            return None
        source = self.of(whole.args[0], stored)
        return None if source is None else relay.Call(whole.op, [source], whole.attrs)

    def own(self, whole: relay.Expr, stored: StoredType) -> relay.Expr | None:
        """Whole numbers that others make, as numbers; None of inputs, and if steps are no ones."""
        if (stored.scale, stored.zero_point) != (1, 0) or not isinstance(whole, relay.Call):
            return None
        key = whole, stored
        if self._made.get(key) is None:
            self._made[key] = fake_quantize(relay.cast(whole, "float32"), stored)
        return self._made[key]


def with_products_for_libraries(module: tvm.IRModule) -> tvm.IRModule:
    """Module in which fusing leaves products of whole numbers that libraries have calls for.

    What is made of scales that a run tells is made alone: libraries take such factors as they
    multiply, and TVM would fuse what makes them. A product ends where its numbers are rounded to
    whole ones, which a byte holds, unless another such tensor is added, or they are rounded again.
    """
    body = module["main"].body
    if not any(map(is_fake_quantize, all_calls(body))):
        return module
    readers = readers_of(graph_order(body))

    def call_of(call: relay.Call, arguments: list[relay.Expr]) -> relay.Call:
        if is_call_of(call, *STEPS):
            arguments = [
                relay.annotation.stop_fusion(new)
                if _is_made_of_scalars(old) and _follows_product(other)
                else new
                for old, new, other in zip(call.args, arguments, reversed(call.args), strict=True)
            ]
        made = copy_call(call, arguments)
        if not is_fake_quantize(call) or not _follows_product(call.args[0]):
            return made
        if is_call_of(call.args[0], "reshape") and len(readers[call.args[0]]) == 1:
            moved = arguments[0]
            rounded = relay.annotation.stop_fusion(copy_call(call, moved.args))
            return relay.Call(moved.op, [rounded], moved.attrs, span=call.span)
        goes_on = len(readers[call]) == 1 and _takes_whole_numbers(readers[call][0])
        return made if goes_on else relay.annotation.stop_fusion(made)

    return with_body(module, rebuild(body, {}, call_of))


def _takes_whole_numbers(reader: relay.Expr) -> bool:
    """True for a step of a product that libraries have for whole numbers."""
    if is_fake_quantize(reader):
        return True
    return is_call_of(reader, "add") and all(whole_numbers_of(each) for each in reader.args)


def _is_made_of_scalars(value: relay.Expr) -> bool:
    """True for what is computed of constants and of numbers that a run tells, none a tensor."""
    while is_call_of(value, "cast", "expand_dims", "reshape"):
        if not value.args[0].checked_type.shape:
            return True
        value = value.args[0]
    if not is_call_of(value, "multiply"):
        return False
    types = [each.checked_type for each in value.args if not isinstance(each, relay.Constant)]
    return bool(types) and not any(each.shape for each in types)


def _follows_product(value: relay.Expr) -> bool:
    """True for a product that reads whole numbers, and steps after one."""
    while is_call_of(value, *STEPS, "clip", "nn.bias_add", "nn.relu", "reshape"):
        value = value.args[0]
    return is_call_of(value, *PRODUCTS) and whole_numbers_of(value.args[0]) is not None


def in_whole_numbers(extraction: Extraction, *, products: bool) -> tvm.IRModule:
    """Fused module in whose memory numbers are whole ones that stand for them.

    The results of operators that end in ``tvm_ios.fake_quantize`` are, and views of them. No number
    changes, but those of products are sums in another order where ``products`` of whole numbers are
    computed. The module itself where nothing does.
    """
    weights = _whole_weights(extraction) if products else {}
    stored = _stored_results(extraction, weights, _pairs(extraction) if products else {})
    if not stored:
        return extraction.module
    index_of = {call: index for index, call in enumerate(extraction.calls)}

    def call_of(call: relay.Call, arguments: list[relay.Expr]) -> relay.Call:
        made = relay.Call(call.op, arguments, call.attrs, call.type_args, call.span)
        function, index = local_function(call), index_of[call]
        if function is None:
            return made
        read = {
            number: stored[index_of[argument]]
            for number, argument in enumerate(call.args)
            if isinstance(argument, relay.Call) and index_of[argument] in stored
        }
        result, weight = stored.get(index), weights.get(index)
        if weight is not None and weight.data in read:
            made, read, result = weight.multiplied(made, read, result)
        function = made.op
        if result is not None and is_fake_quantize(function.body):
            function = typed(
                relay.Function(function.params, function.body.args[0], attrs=function.attrs)
            )
        if read or result is not None:
            function = with_stored_types(function, read, result)
        given = list(made.args)
        if bits_may_change():
            function, given = with_table(function, given)
        return relay.Call(function, given, call.attrs, call.type_args, call.span)

    module = extraction.module
    return with_body(module, rebuild(module["main"].body, {}, call_of))


def _whole_weights(extraction: Extraction) -> dict[int, WholeWeights]:
    found = {
        index: whole_weights_of(call)
        for index, call in enumerate(extraction.calls)
        if local_function(call) is not None
    }
    return {index: weights for index, weights in found.items() if weights is not None}


def whole_numbers_of(value: relay.Expr) -> StoredType | None:
    """Whole numbers that stand for a value, as far as few operators tell; None of others."""
    while is_call_of(value, *MOVES, "layout_transform"):
        value = value.args[0]
    if is_call_of(value, "concatenate") and isinstance(value.args[0], relay.Tuple):
        types = set(map(whole_numbers_of, value.args[0].fields))
        return types.pop() if len(types) == 1 else None
    return stored_type_of(value).unsigned() if is_fake_quantize(value) else None


def only_moves(function: relay.Function) -> bool:
    """True if the result of a fused function consists of elements of its parameters."""
    return all(is_call_of(call, *MOVES, *JOINS) for call in all_calls(function.body))


def _pairs(extraction: Extraction) -> dict[int, tuple[int, int]]:
    """Operators whose results a product of two tensors reads, by that product."""
    index_of = {call: index for index, call in enumerate(extraction.calls)}
    found: dict[int, tuple[int, int]] = {}
    for index, call in enumerate(extraction.calls):
        function = local_function(call)
        products = [] if function is None else all_calls(function.body)
        products = [each for each in products if is_call_of(each, *PRODUCTS)]
        if len(products) != 1 or not is_call_of(products[0], "nn.batch_matmul"):
            continue
        places = {parameter: number for number, parameter in enumerate(call.op.params)}
        read = [places.get(argument) for argument in products[0].args]
        left, right = (None if place is None else index_of.get(call.args[place]) for place in read)
        if left is not None and right is not None and left != right:
            found[index] = left, right
    return found


def _stored_results(
    extraction: Extraction,
    weights: Mapping[int, WholeWeights],
    pairs: Mapping[int, tuple[int, int]],
) -> dict[int, StoredType]:
    """Whole numbers in memory by operator that writes them; products may read those they take."""
    index_of = {call: index for index, call in enumerate(extraction.calls)}
    operators = []
    for index, call in enumerate(extraction.calls):
        function = local_function(call)
        reads = tuple(index_of[each] for arg in call.args for each in producers_of(arg))
        if function is None or any(
            not isinstance(each, relay.Call | relay.Constant | relay.Var) for each in call.args
        ):
            operators.append(WholeOperator(reads=reads, able=False))
            continue
        is_view = extraction.views[index] is not None
        takes = index in weights or index in pairs
        operators.append(
            WholeOperator(
                reads=reads,
                rounds_to=whole_numbers_of(function.body),
                only_moves=(is_view or only_moves(function)) and len(reads) == len(call.args),
                is_view=is_view,
                multiplies=frozenset(() if takes else _multiplied(call, index_of)),
                pair=pairs.get(index),
            )
        )
    return whole_results(operators, extraction.outputs)


def _multiplied(call: relay.Call, index_of: Mapping[relay.Call, int]) -> Iterator[int]:
    """Operators whose results a fused function multiplies by weights or by each other."""
    places = {parameter: number for number, parameter in enumerate(call.op.params)}
    for product in all_calls(call.op.body):
        if is_call_of(product, *PRODUCTS):
            for parameter in relay.analysis.free_vars(product):
                yield from (index_of[each] for each in producers_of(call.args[places[parameter]]))
