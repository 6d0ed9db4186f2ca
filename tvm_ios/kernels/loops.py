"""Loops over statements that a function makes for each index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tir

__all__ = ["ENOUGH_TASKS", "allocated", "loop", "sequence", "vector"]

ENOUGH_TASKS = 64
"""Iterations of a parallel loop that lanes can share evenly."""


def vector(width: int, make: Callable[[tir.PrimExpr], tir.Stmt], dtype: str = "int32") -> tir.Stmt:
    """Statement for each element of a vector."""
    return loop(width, make, tir.ForKind.VECTORIZED, dtype)


def loop(
    count: int,
    make: Callable[[tir.PrimExpr], tir.Stmt],
    kind: tir.ForKind = tir.ForKind.SERIAL,
    dtype: str = "int32",
) -> tir.Stmt:
    """Statement for each index from 0, of an integer type; no loop where there is one."""
    if count < 2:
        return make(tir.const(0, dtype)) if count else tir.Evaluate(0)
    index = tir.Var("i", dtype)
    return tir.For(index, 0, count, kind, make(index))


def sequence(statements: Sequence[tir.Stmt]) -> tir.Stmt:
    """Statements one after another."""
    return statements[0] if len(statements) == 1 else tir.SeqStmt(list(statements))


def allocated(buffers: Sequence[tir.Buffer], statement: tir.Stmt) -> tir.Stmt:
    """Statement with buffers."""
    always = tir.const(True, "bool")
    for buffer in buffers:
        statement = tir.Allocate(buffer.data, buffer.dtype, buffer.shape, always, statement)
    return statement
