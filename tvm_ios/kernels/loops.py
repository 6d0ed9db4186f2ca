"""Loops over statements that a function makes for each index, in the TVM that is here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

import tvm

from tvm_ios.host.relax_tvm import is_relax_tvm

__all__ = [
    "ENOUGH_TASKS",
    "IS_NEW",
    "Expression",
    "Statement",
    "allocated",
    "bound",
    "elsewhere",
    "loop",
    "placed",
    "registers",
    "sequence",
    "tir",
    "vector",
]

IS_NEW = is_relax_tvm(tvm)
"""True for TVM 0.27, whose statements are others."""
tir: Any = import_module("tvm.tirx" if IS_NEW else "tvm.tir")
"""Module of loops and expressions."""
Expression: TypeAlias = Any
"""Expression of ``tir``."""
Statement: TypeAlias = Any
"""Statement of ``tir``."""
ENOUGH_TASKS = 64
"""Iterations of a parallel loop that lanes can share evenly."""


def vector(width: int, make: Callable[[Expression], Statement], dtype: str = "int32") -> Statement:
    """Statement for each element of a vector."""
    return loop(width, make, tir.ForKind.VECTORIZED, dtype)


def loop(
    count: int,
    make: Callable[[Expression], Statement],
    kind: Any = tir.ForKind.SERIAL,
    dtype: str = "int32",
) -> Statement:
    """Statement for each index from 0, of an integer type; no loop where there is one."""
    if count < 2:
        return make(tir.const(0, dtype)) if count else tir.Evaluate(0)
    index = tir.Var("i", dtype)
    return tir.For(index, 0, count, kind, make(index))


def sequence(statements: Sequence[Statement]) -> Statement:
    """Statements one after another."""
    return statements[0] if len(statements) == 1 else tir.SeqStmt(list(statements))


def bound(variable: Expression, value: Expression, statement: Statement) -> Statement:
    """Statement in which a variable has a value."""
    if IS_NEW:
        return sequence([tir.Bind(variable, value), statement])
    return tir.LetStmt(variable, value, statement)


def registers(elements: int, name: str) -> Any:
    """Buffer of float32 that LLVM keeps in registers, for :func:`allocated`."""
    # Of any other scope TVM would take it from its pool, which takes as long as a tile.
    told = {"layout": None} if IS_NEW else {"scope": "global"}
    return tir.decl_buffer((elements,), "float32", name, **told)


def elsewhere(shape: Sequence[Any], dtype: str, name: str) -> Any:
    """Buffer over memory at an address that :func:`placed` says."""
    if IS_NEW:
        return tir.decl_buffer(shape, dtype, name, layout=None)
    pointer = tir.Var(name, tvm.ir.PointerType(tvm.ir.PrimType(dtype)))
    return tir.decl_buffer(shape, dtype, name, data=pointer)


def placed(buffer: Any, address: Expression, statement: Statement) -> Statement:
    """Statement in which a buffer lies at an address."""
    if IS_NEW:
        return sequence([tir.DeclBuffer(buffer, data=address), statement])
    return tir.LetStmt(buffer.data, address, statement)


def allocated(buffers: Sequence[Any], statement: Statement) -> Statement:
    """Statement with buffers."""
    if IS_NEW:
        return sequence([*map(tir.AllocBuffer, buffers), statement])
    always = tir.const(True, "bool")
    for buffer in buffers:
        statement = tir.Allocate(buffer.data, buffer.dtype, buffer.shape, always, statement)
    return statement
