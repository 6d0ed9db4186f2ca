"""Fused functions that compute in float32 and keep some values in memory in other types.

These are bfloat16, and whole numbers that stand for others. Such a function casts these parameters
as it reads them, and its result as it writes that. Whoever computes it reads the function in
float32 and the types apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial

import tvm
from tvm import relay

from tvm_ios.core.precision.low_precision import BFLOAT16, FLOAT32
from tvm_ios.core.precision.stored_type import IN_BFLOAT16, StoredType
from tvm_ios.relay.dataflow import copy_call, is_call_of, rebuild, resolve_field
from tvm_ios.relay.functions.quantised import (
    DEQUANTIZE,
    QUANTIZE,
    dequantize,
    quantize,
    stored_type_of,
)

__all__ = ["StoredFunction", "computed_in_float32", "typed", "with_stored_types"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFunction:
    """A fused function in float32, and types that its values have in memory."""

    computed: relay.Function
    """Fused, typed function without the casts."""
    parameters: Mapping[int, StoredType] = field(default_factory=dict)
    """Types of parameters that are not in memory as they are computed with, by position."""
    result: StoredType | None = None
    """Type of the result in memory; None where that is as it is computed."""

    @property
    def arguments(self) -> dict[int, StoredType]:
        """Types of such arguments of the kernel by position; fields of a tuple count one by one."""
        found: dict[int, StoredType] = {}
        place = 0
        types = [parameter.checked_type for parameter in self.computed.params]
        for number, type_ in enumerate((*types, self.computed.ret_type)):
            behind = place + len(_fields_of(type_))
            stored = self.result if number == len(types) else self.parameters.get(number)
            if stored is not None:
                found.update(dict.fromkeys(range(place, behind), stored))
            place = behind
        return found

    @property
    def results(self) -> int:
        """Number of results, the kernel's last arguments."""
        return len(_fields_of(self.computed.ret_type))

    @property
    def is_mixed(self) -> bool:
        """True if not all values have one type in memory."""
        count = len(self.computed.params)
        types = {self.parameters.get(number) for number in range(count)}
        return len({*types, self.result}) > 1


@lru_cache(maxsize=4096)
def computed_in_float32(function: relay.Function) -> StoredFunction:
    """Fused, typed function without casts of what it reads and writes; itself where it has none.

    A parameter that is also read otherwise keeps its type.
    """
    casts, others = _casts_of_parameters(function)
    stored: dict[int, StoredType] = {}
    for number, parameter in enumerate(function.params):
        if parameter in casts and parameter not in others:
            types = {*map(_type_of_read, casts[parameter])}
            (only, *more) = types
            if only is not None and not more:
                stored[number] = only
    result, body = _before_rounding(function.body)
    if not stored and result is None:
        return StoredFunction(computed=function)
    known: dict[relay.Expr, relay.Expr] = {}
    parameters = list(function.params)
    for number in stored:
        old = parameters[number]
        parameters[number] = new = _variable_like(old, FLOAT32)
        for cast in casts[old]:
            read = cast.args[0]
            known[cast] = new if read == old else relay.TupleGetItem(new, read.index)
    made = rebuild(body, known, copy_call)
    return StoredFunction(
        computed=typed(relay.Function(parameters, made, attrs=function.attrs)),
        parameters=stored,
        result=result,
    )


def with_stored_types(
    function: relay.Function,
    parameters: Mapping[int, StoredType],
    result: StoredType | None = None,
) -> relay.Function:
    """Fused function of float32 whose parameters, by position, or result have other types."""
    known: dict[relay.Expr, relay.Expr] = {}
    names = list(function.params)
    for number, stored in parameters.items():
        old = names[number]
        names[number] = _variable_like(old, stored.dtype)
        known[old] = _each(names[number], old.checked_type, partial(_read, stored=stored))
    body = rebuild(function.body, known, copy_call)
    if result is not None:
        body = _each(body, function.ret_type, partial(_write, stored=result))
    return typed(relay.Function(names, body, attrs=function.attrs))


def _read(value: relay.Expr, stored: StoredType) -> relay.Expr:
    return dequantize(value, stored) if stored.is_whole else relay.cast(value, FLOAT32)


def _write(value: relay.Expr, stored: StoredType) -> relay.Expr:
    return quantize(value, stored) if stored.is_whole else relay.cast(value, BFLOAT16)


def _each(
    value: relay.Expr, type_: tvm.ir.Type, make: Callable[[relay.Expr], relay.Expr]
) -> relay.Expr:
    """Value that a function makes of one of a type, or of each field of a tuple."""
    if not isinstance(type_, tvm.ir.TupleType):
        return make(value)
    fields = [resolve_field(relay.TupleGetItem(value, n)) for n in range(len(type_.fields))]
    return relay.Tuple([make(field) for field in fields])


def _before_rounding(body: relay.Expr) -> tuple[StoredType | None, relay.Expr]:
    """Type that a result of float32 is rounded to at the end, and the result before.

    None, and the result itself, where it is not rounded.
    """
    fields = list(body.fields) if isinstance(body, relay.Tuple) else [body]
    types = {_type_of_write(each) for each in fields}
    if len(types) > 1 or None in types:
        return None, body
    (stored,) = types
    exact = [each.args[0] for each in fields]
    if not isinstance(body, relay.Tuple):
        return stored, exact[0]
    whole = exact[0].tuple_value if isinstance(exact[0], relay.TupleGetItem) else None
    if whole is None or [_field_of(each, whole) for each in exact] != list(
        range(len(whole.checked_type.fields))
    ):
        return stored, relay.Tuple(exact)
    return stored, whole


def _type_of_write(expression: relay.Expr) -> StoredType | None:
    """Type that a call rounds numbers of float32 to; None of anything else."""
    if is_call_of(expression, QUANTIZE):
        return stored_type_of(expression)
    is_cast = _is_cast(expression, BFLOAT16) and _is_type(expression.args[0], FLOAT32)
    return IN_BFLOAT16 if is_cast else None


def _type_of_read(expression: relay.Expr) -> StoredType | None:
    """Type of the numbers that a call makes float32 of; None of anything else."""
    if is_call_of(expression, DEQUANTIZE):
        return stored_type_of(expression)
    is_cast = _is_cast(expression, FLOAT32) and _is_type(expression.args[0], BFLOAT16)
    return IN_BFLOAT16 if is_cast else None


def _field_of(expression: relay.Expr, whole: relay.Expr) -> int | None:
    """Number of the field of a tuple that an expression is; None where it is none."""
    if isinstance(expression, relay.TupleGetItem) and expression.tuple_value == whole:
        return int(expression.index)
    return None


def _casts_of_parameters(
    function: relay.Function,
) -> tuple[dict[relay.Expr, list[relay.Expr]], set[relay.Expr]]:
    """Casts to float32 by the parameter that they read, and parameters that others read as well."""
    casts: dict[relay.Expr, list[relay.Expr]] = {}
    others: set[relay.Expr] = {_root_of(function.body)}

    def look(expression: relay.Expr) -> None:
        if isinstance(expression, relay.Call):
            reads = expression.args
        else:
            reads = expression.fields if isinstance(expression, relay.Tuple) else ()
        for each in reads:
            root = _root_of(each)
            if not isinstance(root, relay.Var):
                continue
            if _type_of_read(expression) is not None:
                casts.setdefault(root, []).append(expression)
            else:
                others.add(root)

    relay.analysis.post_order_visit(function.body, look)
    return casts, others


def _root_of(expression: relay.Expr) -> relay.Expr:
    """Tuple that a field is of; other expressions themselves."""
    return expression.tuple_value if isinstance(expression, relay.TupleGetItem) else expression


def _variable_like(old: relay.Var, dtype: str) -> relay.Var:
    """Variable of another type with the name and the shapes of one."""
    types = [relay.TensorType(each.shape, dtype) for each in _fields_of(old.checked_type)]
    is_tuple = isinstance(old.checked_type, tvm.ir.TupleType)
    return relay.Var(old.name_hint, relay.TupleType(types) if is_tuple else types[0])


def _fields_of(type_: tvm.ir.Type) -> list[tvm.ir.TensorType]:
    return list(type_.fields) if isinstance(type_, tvm.ir.TupleType) else [type_]


def _is_cast(expression: relay.Expr, dtype: str) -> bool:
    return is_call_of(expression, "cast") and _is_type(expression, dtype)


def _is_type(expression: relay.Expr, dtype: str) -> bool:
    type_ = expression.checked_type
    return isinstance(type_, tvm.ir.TensorType) and str(type_.dtype) == dtype


def typed(function: relay.Function) -> relay.Function:
    """Function with inferred types."""
    return relay.transform.InferType()(tvm.IRModule({"main": function}))["main"]
