"""Relax as TVM 0.27 spells it: types, constants, calls. What else knows these names asks here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import tvm
from tvm import relax

from tvm_ios.plan.kernel_graph import GraphTensor

__all__ = [
    "Constant",
    "call_name",
    "is_call_tir",
    "kind_of",
    "main_of",
    "name_of",
    "operator_calls",
    "rebound_main",
    "replace_variables",
    "shape_of",
    "static_tensors",
    "variables_in",
]

Constant = tvm.ir.GenericConst
"""Class of constant tensors."""
NUMBERED = re.compile(r"(?<=[a-z_])\d+$")
"""Number that TVM adds to a name that it has given before."""


def main_of(module: tvm.IRModule) -> relax.Function | None:
    """Function ``main`` of a module in Relax; None where there is none."""
    for variable, function in module.functions_items():
        if variable.name_hint == "main" and isinstance(function, relax.Function):
            return function
    return None


def name_of(variable: relax.Var | tvm.ir.GlobalVar) -> str:
    """Name of a variable, or of a function of the module."""
    return str(variable.name_hint if isinstance(variable, tvm.ir.GlobalVar) else variable.name)


def operator_calls(function: relax.Function) -> list[relax.Call]:
    """Calls of operators in a function, in order."""
    found: list[relax.Call] = []

    def visit(expression: relax.Expr) -> None:
        if isinstance(expression, relax.Call) and isinstance(expression.op, tvm.ir.Op):
            found.append(expression)

    relax.analysis.post_order_visit(function, visit)
    return found


def kind_of(name: str) -> str:
    """Kind of a kernel, from the name that TVM gives it, such as ``fused_conv2d1_add_relu``."""
    words = name.removeprefix("fused_").split("_")
    return "_".join(NUMBERED.sub("", word) for word in words if not word.isdecimal()) or name


def is_call_tir(call: relax.Call) -> bool:
    """True if a call is one of a kernel whose arguments are tensors alone."""
    return (
        call_name(call) == "relax.call_tir"
        and len(call.args) == 2
        and isinstance(call.args[1], relax.Tuple)
    )


def call_name(call: relax.Call) -> str:
    """Name of the operator or function that is called."""
    if isinstance(call.op, tvm.ir.Op):
        return str(call.op.name)
    return str(call.op) if isinstance(call.op, relax.ExternFunc) else name_of(call.op)


def static_tensors(type_: Any) -> tuple[GraphTensor, ...] | None:
    """Tensors of a type: one, or those of a flat tuple; None where a shape is not known."""
    if isinstance(type_, tvm.ir.TupleType):
        fields = [static_tensors(field) for field in type_.fields]
        single = [field[0] for field in fields if field is not None and len(field) == 1]
        return tuple(single) if len(single) == len(fields) else None
    if not isinstance(type_, relax.TensorType) or not isinstance(type_.shape, relax.ShapeExpr):
        return None
    extents = list(type_.shape.values)
    if type_.dtype is None or not all(isinstance(each, tvm.tirx.IntImm) for each in extents):
        return None
    return (GraphTensor(tuple(map(int, extents)), str(type_.dtype)),)


def shape_of(value: relax.Expr) -> tuple[int, ...] | None:
    """Shape of one tensor; None of a tuple, and where it is not known."""
    tensors = static_tensors(value.ty)
    return tensors[0].shape if tensors and len(tensors) == 1 else None


def rebound_main(
    module: tvm.IRModule, new: Callable[[relax.Var, relax.Call], relax.Expr]
) -> tvm.IRModule:
    """Module whose ``main`` binds others in place of its calls, in order; unchanged without any.

    ``new`` is given each variable with its call, whose arguments may be variables bound before.
    """
    main = main_of(module)
    changed = False
    blocks = []
    for block in [] if main is None else main.body.blocks:
        bindings = []
        for each in block.bindings:
            binding = each
            if isinstance(each, relax.VarBinding) and isinstance(each.value, relax.Call):
                value = new(each.var, each.value)
                if not value.same_as(each.value):
                    changed, binding = True, relax.VarBinding(each.var, value)
            bindings.append(binding)
        is_dataflow = isinstance(block, relax.DataflowBlock)
        blocks.append((relax.DataflowBlock if is_dataflow else relax.BindingBlock)(bindings))
    if main is None or not changed:
        return module
    body = relax.SeqExpr(blocks, main.body.body)
    made = module.clone()
    function = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    made.update_func(module.get_global_var("main"), function)
    return relax.transform.Normalize()(made)


def variables_in(expression: Any) -> Iterator[relax.Var]:
    """Variables that an expression reads, in order."""
    if isinstance(expression, relax.Var):
        yield expression
        return
    for piece in _pieces(expression):
        yield from variables_in(piece)


def replace_variables(expression: Any, new: Callable[[relax.Var], Any]) -> Any:
    """Copy of an expression with others in place of its variables."""
    if isinstance(expression, relax.Var):
        return new(expression)
    pieces = [replace_variables(piece, new) for piece in _pieces(expression)]
    if isinstance(expression, relax.Tuple):
        return relax.Tuple(pieces)
    if isinstance(expression, relax.TupleGetItem):
        whole = pieces[0]
        if isinstance(whole, relax.Tuple):
            return whole.fields[expression.index]
        return relax.TupleGetItem(whole, expression.index)
    if isinstance(expression, relax.Call):
        return relax.Call(expression.op, pieces, expression.attrs, expression.ty_args)
    return expression


def _pieces(expression: Any) -> list[Any]:
    """Expressions that an expression of straight-line code is made of."""
    if isinstance(expression, relax.Tuple):
        return list(expression.fields)
    if isinstance(expression, relax.TupleGetItem):
        return [expression.tuple_value]
    return list(expression.args) if isinstance(expression, relax.Call) else []
