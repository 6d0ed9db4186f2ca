"""Fused functions that compute in float32 and keep some values in memory as bfloat16.

Such a function casts these parameters as it reads them, and its result as it writes that. Whoever
computes it reads the function in float32 and the types apart.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

import tvm
from tvm import relay

from tvm_ios.core.low_precision import BFLOAT16, FLOAT32
from tvm_ios.relay.dataflow import copy_call, is_call_of, rebuild, resolve_field

__all__ = ["StoredFunction", "computed_in_float32", "with_stored_types"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFunction:
    """A fused function in float32, and what it keeps in bfloat16."""

    computed: relay.Function
    """Fused, typed function without the casts."""
    parameters: frozenset[int] = frozenset()
    """Positions of parameters that are kept in bfloat16."""
    rounds_result: bool = False
    """True if the result is kept in bfloat16."""

    @property
    def arguments(self) -> frozenset[int]:
        """Positions of the kernel's arguments in bfloat16; fields of a tuple count one by one."""
        found: set[int] = set()
        place = 0
        types = [parameter.checked_type for parameter in self.computed.params]
        for number, type_ in enumerate((*types, self.computed.ret_type)):
            behind = place + len(_fields_of(type_))
            if number in self.parameters or (number == len(types) and self.rounds_result):
                found.update(range(place, behind))
            place = behind
        return frozenset(found)

    @property
    def results(self) -> int:
        """Number of results, the kernel's last arguments."""
        return len(_fields_of(self.computed.ret_type))

    @property
    def is_mixed(self) -> bool:
        """True if some arguments are kept in bfloat16, but not all."""
        count = len(self.computed.params)
        return 0 < len(self.parameters) + self.rounds_result < count + 1


@lru_cache(maxsize=4096)
def computed_in_float32(function: relay.Function) -> StoredFunction:
    """Fused, typed function without casts of what it reads and writes; itself where it has none.

    A parameter that is also read in bfloat16 keeps its type.
    """
    casts, others = _casts_of_parameters(function)
    stored = [
        number
        for number, parameter in enumerate(function.params)
        if parameter in casts and parameter not in others
    ]
    body = _before_rounding(function.body)
    if not stored and body is None:
        return StoredFunction(computed=function)
    known: dict[relay.Expr, relay.Expr] = {}
    parameters = list(function.params)
    for number in stored:
        old = parameters[number]
        parameters[number] = new = _variable_like(old, FLOAT32)
        for cast in casts[old]:
            read = cast.args[0]
            known[cast] = new if read == old else relay.TupleGetItem(new, read.index)
    made = rebuild(function.body if body is None else body, known, copy_call)
    return StoredFunction(
        computed=_typed(relay.Function(parameters, made, attrs=function.attrs)),
        parameters=frozenset(stored),
        rounds_result=body is not None,
    )


def with_stored_types(
    function: relay.Function, parameters: Collection[int], *, rounds_result: bool
) -> relay.Function:
    """Fused function of float32 that keeps parameters, by position, or its result in bfloat16."""
    known: dict[relay.Expr, relay.Expr] = {}
    names = list(function.params)
    for number in parameters:
        old = names[number]
        names[number] = _variable_like(old, BFLOAT16)
        known[old] = _cast(names[number], old.checked_type, FLOAT32)
    body = rebuild(function.body, known, copy_call)
    if rounds_result:
        body = _cast(body, function.ret_type, BFLOAT16)
    return _typed(relay.Function(names, body, attrs=function.attrs))


def _cast(value: relay.Expr, type_: tvm.ir.Type, dtype: str) -> relay.Expr:
    """Value of a type, cast; a tuple field by field."""
    if not isinstance(type_, tvm.ir.TupleType):
        return relay.cast(value, dtype)
    fields = [resolve_field(relay.TupleGetItem(value, n)) for n in range(len(type_.fields))]
    return relay.Tuple([relay.cast(field, dtype) for field in fields])


def _before_rounding(body: relay.Expr) -> relay.Expr | None:
    """Result of float32 that is rounded to bfloat16 at the end; None where none is."""
    fields = list(body.fields) if isinstance(body, relay.Tuple) else [body]
    if not all(_is_cast(each, BFLOAT16) and _is_type(each.args[0], FLOAT32) for each in fields):
        return None
    exact = [each.args[0] for each in fields]
    if not isinstance(body, relay.Tuple):
        return exact[0]
    whole = exact[0].tuple_value if isinstance(exact[0], relay.TupleGetItem) else None
    if whole is None or [_field_of(each, whole) for each in exact] != list(
        range(len(whole.checked_type.fields))
    ):
        return relay.Tuple(exact)
    return whole


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
            if _is_cast(expression, FLOAT32) and _is_type(each, BFLOAT16):
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


def _typed(function: relay.Function) -> relay.Function:
    return relay.transform.InferType()(tvm.IRModule({"main": function}))["main"]
