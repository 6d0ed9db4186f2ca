"""Obstacles in a Relay module that keep all of it from being scheduled.

TVM's graph executor, and so ours, runs straight-line code of static shapes. A module with control
flow or unknown shapes is left unchanged and the obstacle reported; TVM's virtual machine runs it.
"""

from __future__ import annotations

import tvm
from tvm import relay

from tvm_ios.core.graph import Obstacle
from tvm_ios.core.tensor_size import require_size

__all__ = [
    "find_obstacles",
    "is_dynamic",
    "is_primitive",
    "obstacles_of",
    "require_sizes",
]

CONTROL_FLOW = (relay.If, relay.Match, relay.RefCreate, relay.RefRead, relay.RefWrite)


def find_obstacles(module: tvm.IRModule) -> tuple[Obstacle, ...]:
    """Constructs reachable from ``main`` that the graph executor cannot run, each reason once."""
    return obstacles_of(relay.transform.InferType()(module))


def obstacles_of(typed: tvm.IRModule) -> tuple[Obstacle, ...]:
    """Obstacles as of :func:`find_obstacles`, in a module whose types are inferred already."""
    found: dict[Obstacle, None] = {}
    for name, body in _reachable(typed, "main"):
        for parameter in body.params:
            if name == "main" and isinstance(parameter.checked_type, tvm.ir.TupleType):
                found[Obstacle(name, f"the tuple input {parameter.name_hint!r}")] = None
            if is_dynamic(parameter.checked_type):
                reason = f"parameter {parameter.name_hint!r} has the dynamic type "
                found[Obstacle(name, reason + str(parameter.checked_type))] = None
        for reason in _reasons(body):
            found[Obstacle(name, reason)] = None
        if name in _callable_from(typed, body):
            found[Obstacle(name, "recursion")] = None
    return tuple(found)


def is_dynamic(type_: tvm.ir.Type) -> bool:
    """True if a type has a dimension that is not known before the run."""
    if isinstance(type_, tvm.ir.TupleType):
        return any(is_dynamic(field) for field in type_.fields)
    if isinstance(type_, tvm.ir.TensorType):
        return any(not isinstance(extent, tvm.tir.IntImm) for extent in type_.shape)
    return False


def require_sizes(what: str, type_: tvm.ir.Type) -> None:
    """Refuse a type of static shape, or a tuple of such, that this machine's memory cannot hold."""
    if isinstance(type_, tvm.ir.TupleType):
        for field in type_.fields:
            require_sizes(what, field)
    elif isinstance(type_, tvm.ir.TensorType) and not is_dynamic(type_):
        require_size(what, [int(extent) for extent in type_.shape], tvm.DataType(type_.dtype).bits)


def is_primitive(function: relay.Function) -> bool:
    """True if a function is one kernel: fused by TVM or compiled by an external code generator."""
    attributes = function.attrs
    return attributes is not None and ("Primitive" in attributes or "Compiler" in attributes)


def _reachable(module: tvm.IRModule, root: str) -> list[tuple[str, relay.Function]]:
    """A global function and those it calls, directly or not, without kernels."""
    pending, seen = [root], {root}
    functions = []
    while pending:
        name = pending.pop()
        function = module[name]
        if not isinstance(function, relay.Function) or is_primitive(function):
            continue
        functions.append((name, function))
        fresh = [callee for callee in _global_callees(function) if callee not in seen]
        seen.update(fresh)
        pending.extend(fresh)
    return functions


def _callable_from(module: tvm.IRModule, function: relay.Function) -> set[str]:
    return {name for callee in _global_callees(function) for name, _ in _reachable(module, callee)}


def _global_callees(function: relay.Function) -> list[str]:
    callees: dict[str, None] = {}

    def visit(expression: relay.Expr) -> None:
        if isinstance(expression, relay.GlobalVar):
            callees[expression.name_hint] = None

    relay.analysis.post_order_visit(function, visit)
    return list(callees)


def _reasons(function: relay.Function) -> list[str]:
    reasons: dict[str, None] = {}

    def visit(expression: relay.Expr) -> None:
        if isinstance(expression, CONTROL_FLOW):
            reasons[f"control flow ({type(expression).__name__})"] = None
        elif isinstance(expression, relay.Call):
            if isinstance(expression.op, relay.Var):
                reasons[f"a call of the function value {expression.op.name_hint!r}"] = None
            elif isinstance(expression.op, relay.Function) and not is_primitive(expression.op):
                reasons["a call of a local function"] = None
            elif isinstance(expression.op, relay.Constructor):
                reasons["an algebraic data type"] = None
            elif is_dynamic(expression.checked_type):
                name = expression.op.name if isinstance(expression.op, tvm.ir.Op) else "a function"
                reasons[f"the dynamic result of {name}, {expression.checked_type}"] = None

    relay.analysis.post_order_visit(function, visit)
    return list(reasons)
