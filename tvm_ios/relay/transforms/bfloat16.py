"""Values of a fused model in bfloat16: what lies between operators, and weights of products.

Goes after fusing, so operators, their numbers and schedules stay. Each operator computes in
float32 as before, but products of a library may take their operands in bfloat16: sums are of
float32 there, too. Inputs and outputs of the model keep their types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
import tvm
from tvm import relay

from tvm_ios.core.low_precision import BFLOAT16, FLOAT32, LowPrecision
from tvm_ios.core.stored_type import IN_BFLOAT16
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

__all__ = ["in_bfloat16", "is_product", "low_precision_of", "rounded_constant"]

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


def low_precision_of(
    extraction: Extraction, kept: Collection[int] = (), exact: Collection[int] = ()
) -> LowPrecision:
    """Values of a prepared model that may lie in memory as bfloat16, as many as possible.

    A view and what it is a view of are of one type. Results of the model stay float32.

    Parameters
    ----------
    kept
        Operators that write float32 and have weights of it.
    exact
        Operators that neither read nor write bfloat16.
    """
    calls = extraction.calls
    index_of = {call: index for index, call in enumerate(calls)}
    able = [_is_able(index, extraction) and index not in exact for index in range(len(calls))]
    near_end = _near_end(extraction)
    may = [
        able[index] and index not in kept and index not in near_end for index in range(len(calls))
    ]
    groups = list(range(len(calls)))

    def group_of(index: int) -> int:
        while groups[index] != index:
            index = groups[index]
        return index

    for index, call in enumerate(calls):
        made = [each for argument in call.args for each in producers_of(argument)]
        read = {_made_by(argument) for argument in call.args}
        for each in made:
            if not able[index] or each not in read:  # one of a tuple of several
                may[index_of[each]] = False
        if extraction.views[index] is not None:
            if len(made) < len(call.args):
                may[index] = False
            for each in made:
                groups[group_of(index)] = group_of(index_of[each])
    barred = {group_of(index) for index, allowed in enumerate(may) if not allowed}
    return LowPrecision(
        results=tuple(
            index for index, allowed in enumerate(may) if allowed and group_of(index) not in barred
        ),
        weights=tuple(
            index
            for index, call in enumerate(calls)
            if able[index] and index not in kept and _weight_of(call) is not None
        ),
    )


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
    bits = values_of(constant).astype("float32").view("uint32")
    last = (bits >> 16) & 1
    nearest = ((bits + last + 0x7FFF) >> 16).astype("uint16")
    nan = ((bits >> 16) | 0x40).astype("uint16")
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    array = tvm.nd.empty(bits.shape, BFLOAT16)
    array.copyfrom(np.where(is_nan, nan, nearest))
    return relay.Constant(array)


def _near_end(extraction: Extraction) -> set[int]:
    """Operators between whose results and those of the model no product lies.

    What is rounded there is never averaged again.
    """
    calls = extraction.calls
    index_of = {call: index for index, call in enumerate(calls)}
    found: set[int] = set()
    waiting = list(extraction.outputs)
    while waiting:
        index = waiting.pop()
        if index in found:
            continue
        found.add(index)
        if not is_product(calls[index]):
            made = (each for argument in calls[index].args for each in producers_of(argument))
            waiting += [index_of[each] for each in made]
    return found


def is_product(call: relay.Call) -> bool:
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
