"""Passes on TIR that replace calls of libm, for float32 on CPUs.

TVM 0.17 vectorises loops with ``exp``, but computes ``erf`` and ``rsqrt`` lane by lane. So these
two are rewritten before it does. The others are when loops are vectorised and unrolled: their steps
are statements, which TVM vectorises as buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import tvm
from tvm import tir

from tvm_ios.kernels.lowering_context import lowering_with
from tvm_ios.kernels.vector_math.functions import POWERS, erf, exp, log, rsqrt, sigmoid, tanh
from tvm_ios.kernels.vector_math.steps import Steps

__all__ = [
    "MATHEMATICS_VERSION",
    "arithmetic_lowering",
    "preparing_lowering",
    "with_arithmetic",
]

MATHEMATICS_VERSION = 1
"""Version of the arithmetic: counted up when a bit of any result changes."""
IF_THEN_ELSE = tvm.ir.Op.get("tir.if_then_else")
FUNCTIONS: dict[str, Callable[[Steps, tir.PrimExpr], tir.PrimExpr]] = {
    "tir.exp": exp,
    "tir.log": log,
    "tir.sigmoid": sigmoid,
    "tir.tanh": tanh,
    "tir.erf": erf,
}


def _prepared_for_vectors(function: tir.PrimFunc) -> tir.PrimFunc:
    """Function whose calls of ``erf`` and ``rsqrt`` TVM's vectoriser takes."""
    return _with_body(
        function, tir.stmt_functor.ir_transform(function.body, None, _prepared, ["tir.Call"])
    )


def with_arithmetic(function: tir.PrimFunc) -> tir.PrimFunc:
    """Function with arithmetic in place of calls of libm."""
    return _with_body(function, _statement(function.body))


def preparing_lowering() -> AbstractContextManager[None]:
    """Context in which TVM vectorises loops with ``erf`` and ``rsqrt``.

    What TVM lowers in it is for :func:`with_arithmetic` only.
    """
    return lowering_with([_pass(1, _prepared_for_vectors)])


def arithmetic_lowering() -> AbstractContextManager[None]:
    """Context in which TVM lowers and builds with arithmetic in place of calls of libm."""
    return lowering_with([_pass(1, _prepared_for_vectors), _pass(3, with_arithmetic)])


def _pass(phase: int, change: Callable[[tir.PrimFunc], tir.PrimFunc]) -> tuple[int, Any]:
    def apply(function: tir.PrimFunc, *_: object) -> tir.PrimFunc:
        return change(function)

    name = f"tvm_ios.{change.__name__.removeprefix('_')}"
    return phase, tir.transform.prim_func_pass(apply, opt_level=0, name=name)


def _with_body(function: tir.PrimFunc, body: tir.Stmt) -> tir.PrimFunc:
    return function if body.same_as(function.body) else function.with_body(body)


def _prepared(call: tir.Call) -> tir.PrimExpr | None:
    if not _is_float32(call):
        return None
    if call.op.name == "tir.rsqrt":
        return rsqrt(call.args[0])
    if call.op.name == "tir.erf":
        # In disguise: nobody else calls exp with two arguments.
        return tir.Call(call.dtype, "tir.exp", [*call.args, tir.const(0.0, "float32")])
    return None


def _statement(statement: tir.Stmt) -> tir.Stmt:
    """Statement with arithmetic in what it stores, binds or calls; its own conditions keep libm."""
    kinds = ["tir.BufferStore", "tir.LetStmt", "tir.Evaluate"]
    return tir.stmt_functor.ir_transform(statement, _changed, None, kinds)


def _changed(statement: tir.Stmt) -> tir.Stmt:
    value, steps = _expression(statement.value)
    same = not steps and value.same_as(statement.value)
    if isinstance(statement, tir.LetStmt):
        body = _statement(statement.body)
        if same and body.same_as(statement.body):
            return statement
        return steps.before(tir.LetStmt(statement.var, value, body))
    if same:
        return statement
    if isinstance(statement, tir.BufferStore):
        return steps.before(tir.BufferStore(statement.buffer, value, statement.indices))
    return steps.before(tir.Evaluate(value))


def _expression(value: tir.PrimExpr) -> tuple[tir.PrimExpr, Steps]:
    """Expression without calls of libm, and the steps that it needs before it."""
    steps = Steps()

    def before(node: tir.PrimExpr) -> tir.PrimExpr | None:
        if isinstance(node, tir.Let):
            return _let(node, steps)
        return _branch(node, steps) if node.op.same_as(IF_THEN_ELSE) else None

    def after(node: tir.PrimExpr) -> tir.PrimExpr | None:
        return _arithmetic(node, steps) if isinstance(node, tir.Call) else None

    carrier = tir.Evaluate(value)
    changed = tir.stmt_functor.ir_transform(carrier, before, after, ["tir.Call", "tir.Let"])
    return changed.value, steps


def _let(node: tir.Let, steps: Steps) -> tir.PrimExpr:
    """Body of a binding, which becomes a step; the binding itself if nothing of it needs one."""
    value, of_value = _expression(node.value)
    body, of_body = _expression(node.body)
    if not of_value and not of_body:
        return node
    steps.add(of_value)
    steps.bind(node.var, value)
    steps.add(of_body)
    return body


def _branch(node: tir.Call, steps: Steps) -> tir.PrimExpr:
    condition, *ways = map(_expression, node.args)
    if not any(of_part for _, of_part in (condition, *ways)):
        return node
    steps.add(condition[1])
    return steps.branch(condition[0], ways)


def _arithmetic(call: tir.Call, steps: Steps) -> tir.PrimExpr | None:
    """Value of a call by arithmetic; None for calls that stay."""
    if not _is_float32(call):
        return None
    name, x = call.op.name, call.args[0]
    if name == "tir.pow":
        exponent = _constant(call.args[1])
        raised = None if exponent is None else POWERS.get(exponent)
        return None if raised is None else steps.let("power", raised(steps.let("x", x)))
    if name == "tir.rsqrt":
        return rsqrt(x)
    change = erf if name == "tir.exp" and len(call.args) > 1 else FUNCTIONS.get(name)
    return None if change is None else steps.let("result", change(steps, x))


def _is_float32(call: tir.Call) -> bool:
    return isinstance(call.op, tvm.ir.Op) and call.dtype.partition("x")[0] == "float32"


def _constant(value: tir.PrimExpr) -> float | None:
    """Number that all lanes of a value have; None where it is no constant."""
    if isinstance(value, tir.Broadcast):
        value = value.value
    return float(value.value) if isinstance(value, tir.FloatImm) else None
