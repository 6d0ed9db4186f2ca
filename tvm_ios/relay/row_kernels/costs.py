"""Costs of values of a row kernel: how often each is needed, how dear it is, and if in vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tvm import tir
from tvm.ir import Op

from tvm_ios.relay.row_kernels.values import Value

__all__ = ["DEAR", "is_dear", "is_vectorised", "passes_of", "readers_of"]

DEAR = frozenset(
    f"tir.{name}"
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp10"),
        *("exp2", "log", "log10", "log1p", "log2", "pow", "sigmoid", "sin", "sinh", "tan", "tanh"),
    )
)
"""Functions that are kept for later passes over a row rather than computed again."""


def readers_of(values: Sequence[Value]) -> Counter[Value]:
    """Number of times that each value is read."""
    by_name = {value.name: value for value in values}
    counts: Counter[Value] = Counter()

    def count(expression: object) -> None:
        if isinstance(expression, tir.Var) and expression in by_name:
            counts[by_name[expression]] += 1

    for value in values:
        tir.stmt_functor.post_order_visit(tir.Evaluate(value.expression), count)
    return counts


def passes_of(values: Sequence[Value]) -> Counter[Value]:
    """Number of passes over the rows in which each value is needed."""
    counts: Counter[Value] = Counter()
    for head in values:
        if head.combiner is None and head is not values[-1]:
            continue
        needed: set[Value] = set()
        pending = [head]
        while pending:
            value = pending.pop()
            reads = [each for each in value.reads if not each.on_row and each not in needed]
            needed.update(reads)
            pending += reads
        counts.update(needed)
    return counts


def is_dear(value: Value) -> bool:
    """True if a value calls a function that takes as long as many additions."""
    return any(call.op.name in DEAR for call in _calls(value))


def is_vectorised(value: Value) -> bool:
    """True if TVM computes a value in vectors; in their loops it cannot bind another one."""
    return all(
        bool(call.op.get_attr("TVectorizable")) or _is_arithmetic(call) for call in _calls(value)
    )


def _is_arithmetic(call: tir.Call) -> bool:
    """True if a call is arithmetic in loops of vectors, or becomes it before there are any."""
    names = ("tir.erf", "tir.reinterpret", "tir.rsqrt")
    return call.op.name in names and call.dtype in ("float32", "int32")


def _calls(value: Value) -> list[tir.Call]:
    """Calls of built-in functions in a value."""
    found: list[tir.Call] = []

    def look(expression: object) -> None:
        if isinstance(expression, tir.Call) and isinstance(expression.op, Op):
            found.append(expression)

    tir.stmt_functor.post_order_visit(tir.Evaluate(value.expression), look)
    return found
