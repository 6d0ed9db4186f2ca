"""Concatenations along the axis whose elements lie side by side, and what follows them.

Tried before other loops. Each piece of a row has vectors of its own, in place of a condition for
each element, by which TVM splits no loop that counts in int64.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.injective import inlined
from tvm_ios.relax.schedules.tiles import (
    in_order,
    over_tasks,
    stored_in_vectors,
    substituted,
    unfused,
    with_loops,
)

__all__ = ["joined"]

BRANCH = "if_then_else"


def joined(function: tvm.tirx.PrimFunc, lanes: int) -> tvm.tirx.PrimFunc | None:
    """Kernel that joins rows, with loops for vectors of so many elements; None for others."""
    block = inlined(function)
    if block is None:
        return None
    extents = {each.var: int(each.dom.extent) for each in block.iter_vars}
    variables = [each for each in extents if extents[each] != 1]
    if len(variables) < 2 or not isinstance(block.body, tirx.BufferStore):
        return None
    *rows, along = variables
    begins = [each for each in _begins(block.body.value, along) if each < extents[along]]
    if not begins:
        return None
    task = tirx.Var("task", along.ty.dtype)
    numbers = unfused(task, [extents[each] for each in rows])
    store = substituted(block.body, list(zip(rows, numbers, strict=True)))
    steps = [
        step
        for begin, end in zip([0, *begins], [*begins, extents[along]], strict=True)
        for step in _piece(store, along, begin, end, lanes)
    ]
    tasks = math.prod(extents[each] for each in rows)
    loop = over_tasks(task, tasks, in_order(steps), tasks * extents[along])
    return with_loops(function, loop)


def _piece(
    store: tirx.BufferStore, along: tirx.Var, begin: int, end: int, lanes: int
) -> list[tirx.Stmt]:
    """Statements that write some elements of a row, all of which come from the same array."""
    made = tirx.BufferStore(store.buffer, _chosen(store.value, along, begin), store.indices)
    return stored_in_vectors(made, along, range(begin, end), lanes)


def _begins(value: Value, along: tirx.Var) -> list[int]:
    """First elements of all pieces but the first one; none where conditions are other ones."""
    conditions: list[Value] = []

    def noted(call: tvm.ir.Call) -> None:
        if BRANCH in str(call.op):
            conditions.append(call.args[0])

    tvm_ffi.structural_walk(value, (tvm.ir.Call, noted))
    if not all(_is_begin(each, along) for each in conditions):
        return []
    return sorted({int(each.a) for each in conditions if int(each.a) > 0})


def _is_begin(condition: Value, along: tirx.Var) -> bool:
    """True for a condition that all places from some number on fulfil."""
    return (
        isinstance(condition, tirx.LE)
        and isinstance(condition.a, tirx.IntImm)
        and condition.b.same_as(along)
    )


def _chosen(value: Value, along: tirx.Var, place: int) -> Value:
    """Value without its conditions, as they are at a place of the row."""

    def chosen(call: Any) -> Value:
        if BRANCH not in str(call.op) or not _is_begin(call.args[0], along):
            return call
        condition, yes, no = call.args
        return yes if int(condition.a) <= place else no

    return tvm_ffi.structural_map(value, (tvm.ir.Call, chosen), order="post")
