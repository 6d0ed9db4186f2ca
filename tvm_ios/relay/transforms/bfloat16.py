"""Values of a fused model in bfloat16: what lies between operators, and weights of products.

Goes after fusing, so operators, their numbers and schedules stay. Each operator computes in
float32 as before, but products of a library may take their operands in bfloat16: sums are of
float32 there, too. Inputs and outputs of the model keep their types.
"""

from __future__ import annotations

from collections.abc import Iterable

import tvm
from tvm import relay

from tvm_ios.core.precision.low_precision import BFLOAT16, FLOAT32, LowPrecision
from tvm_ios.core.precision.low_values import LowOperator, LowValues
from tvm_ios.core.precision.stored_type import IN_BFLOAT16
from tvm_ios.plan.data_type import bfloat16_bits
from tvm_ios.relay.constants import values_of
from tvm_ios.relay.dataflow import (
    all_calls,
    local_function,
    producers_of,
    rebuild,
    resolve_field,
    with_body,
)
from tvm_ios.relay.extract import Extraction
from tvm_ios.relay.functions.stored_types import with_stored_types

__all__ = ["in_bfloat16", "low_values", "rounded_constant"]

PRODUCTS = frozenset(
    {
        "nn.batch_matmul",
        "nn.contrib_conv2d_NCHWc",
        "nn.contrib_dense_pack",
        "nn.contrib_depthwise_conv2d_NCHWc",
        "nn.conv2d",
        "nn.conv2d_transpose",
        "nn.conv3d",
        "nn.dense",
    }
)
"""Operators whose second operand are weights."""
LONELY = frozenset(
    {
        "argmax",
        "argmin",
        "argsort",
        "cast",
        "gather",
        "gather_nd",
        "image.affine_grid",
        "image.crop_and_resize",
        "image.grid_sample",
        "nn.deformable_conv2d",
        "scatter_elements",
        "scatter_nd",
        "searchsorted",
        "take",
        "topk",
        "unique",
    }
)
"""Operators that take numbers as places, or compare them, so they read and write float32.

So do all of ``vision``: they read boxes.
"""


def low_values(extraction: Extraction) -> LowValues:
    """Values of a prepared model of float32 that could be bfloat16."""
    calls = extraction.calls
    index_of = {call: index for index, call in enumerate(calls)}
    operators = []
    for index, call in enumerate(calls):
        made = [[index_of[each] for each in producers_of(argument)] for argument in call.args]
        apart = {_made_by(argument) for argument in call.args} - {None}
        operators.append(
            LowOperator(
                able=_is_able(index, extraction),
                is_product=_is_product(call),
                own_loops=extraction.graph.operators[index].kind == "depthwise_conv2d",
                has_weights=_weight_of(call) is not None,
                reads=tuple(dict.fromkeys(each for some in made for each in some)),
                reads_apart=frozenset(index_of[each] for each in apart),
                is_view=extraction.views[index] is not None,
                reads_others=sum(map(len, made)) < len(call.args),
            )
        )
    return LowValues(operators=tuple(operators), outputs=tuple(extraction.outputs))


def in_bfloat16(extraction: Extraction, low: LowPrecision) -> tvm.IRModule:
    """Prepared module whose values in memory are bfloat16 where that is said."""
    index_of = {call: index for index, call in enumerate(extraction.calls)}
    results, weights = {*low.results}, {*low.weights}
    made: dict[tuple[relay.Function, frozenset[int], bool], relay.Function] = {}
    constants: dict[relay.Constant, relay.Constant] = {}

    def call_of(call: relay.Call, arguments: list[relay.Expr]) -> relay.Call:
        index, function = index_of[call], local_function(call)
        if function is None:
            return relay.Call(call.op, arguments, call.attrs, call.type_args, call.span)
        stored = {
            number
            for number, argument in enumerate(call.args)
            if (producer := _made_by(argument)) is not None and index_of[producer] in results
        }
        if index in weights:
            number = _weight_of(call)
            assert number is not None, "only operators with weights are among them"
            stored.add(number)
            weight = call.args[number]
            if weight not in constants:
                constants[weight] = rounded_constant(weight)
            arguments[number] = constants[weight]
        rounds = index in results
        key = (function, frozenset(stored), rounds)
        if stored or rounds:
            if key not in made:
                made[key] = with_stored_types(
                    function,
                    dict.fromkeys(sorted(stored), IN_BFLOAT16),
                    IN_BFLOAT16 if rounds else None,
                )
            function = made[key]
        return relay.Call(function, arguments, call.attrs, call.type_args, call.span)

    module = extraction.module
    return with_body(module, rebuild(module["main"].body, {}, call_of))


def _made_by(argument: relay.Expr) -> relay.Call | None:
    """Kernel call that made an argument, or the tuple whose field it is; None of other ones."""
    found = resolve_field(argument)
    found = found.tuple_value if isinstance(found, relay.TupleGetItem) else found
    return found if isinstance(found, relay.Call) else None


def rounded_constant(constant: relay.Constant) -> relay.Constant:
    """Constant of bfloat16 with the numbers nearest to those of one of float32."""
    array = tvm.nd.empty(constant.data.shape, BFLOAT16)
    array.copyfrom(bfloat16_bits(values_of(constant)))
    return relay.Constant(array)


def _is_product(call: relay.Call) -> bool:
    """True if a kernel call computes a convolution or a product of matrices."""
    function = local_function(call)
    return function is not None and not PRODUCTS.isdisjoint(_names(all_calls(function.body)))


def _is_able(index: int, extraction: Extraction) -> bool:
    """True if an operator may read and write float32 as bfloat16.

    Norms do not: what they read and write are sums that a transformer adds to layer by layer, and
    rounded each time they lose twice as much as all products together.
    """
    call = extraction.calls[index]
    function = local_function(call)
    if function is None or "Compiler" in function.attrs:
        return False
    type_ = call.checked_type
    fields = type_.fields if isinstance(type_, tvm.ir.TupleType) else [type_]
    if any(str(each.dtype) != FLOAT32 for each in fields):
        return False
    if extraction.graph.operators[index].kind == "norm":
        return False
    names = _names(all_calls(function.body))
    return LONELY.isdisjoint(names) and not any(name.startswith("vision.") for name in names)


def _names(calls: Iterable[relay.Call]) -> set[str]:
    return {call.op.name for call in calls if isinstance(call.op, tvm.ir.Op)}


def _weight_of(call: relay.Call) -> int | None:
    """Position of the constant weights of a product among a call's arguments; None without them."""
    function = local_function(call)
    if function is None:
        return None
    for each in all_calls(function.body):
        if isinstance(each.op, tvm.ir.Op) and each.op.name in PRODUCTS:
            weight = each.args[1]
            for number, parameter in enumerate(function.params):
                given = call.args[number]
                if parameter.same_as(weight) and isinstance(given, relay.Constant):
                    return number if str(given.data.dtype) == FLOAT32 else None
    return None
