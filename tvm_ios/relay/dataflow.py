"""Walks over the top level of ``main``, and copies of it: kernel calls, tuples, fields, leaves.

The order is TVM's own post-order (operator, then arguments from left to right), so the i-th kernel
call met here is the i-th ``tvm_op`` node of the graph JSON. Everything is iterative: a network of
a thousand operators in a chain would exhaust Python's stack otherwise.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence

import tvm
from tvm import relay
from tvm.relay.op import OpPattern

from tvm_ios.errors import ModelError

__all__ = [
    "all_calls",
    "callee",
    "children",
    "computed_values",
    "copy_call",
    "fusion_pattern",
    "graph_order",
    "has_main",
    "is_call_of",
    "kernel_calls",
    "local_function",
    "producers_of",
    "readers_of",
    "rebuild",
    "resolve_field",
    "spanned",
    "with_body",
]


def graph_order(root: relay.Expr) -> list[relay.Expr]:
    """Expressions below ``root`` in post-order, each once; functions are not entered."""
    order: list[relay.Expr] = []
    done: set[relay.Expr] = set()
    stack: list[tuple[relay.Expr, bool]] = [(root, False)]
    while stack:
        expression, expanded = stack.pop()
        if expression in done:
            continue
        if expanded:
            done.add(expression)
            order.append(expression)
            continue
        stack.append((expression, True))
        stack.extend((child, False) for child in reversed(children(expression)))
    return order


def children(expression: relay.Expr) -> list[relay.Expr]:
    """Expressions that an expression reads; functions are not entered."""
    if isinstance(expression, relay.Call):
        return list(expression.args)
    if isinstance(expression, relay.Tuple):
        return list(expression.fields)
    if isinstance(expression, relay.TupleGetItem):
        return [expression.tuple_value]
    if isinstance(expression, (relay.Var, relay.Constant, relay.GlobalVar)):
        return []
    raise ModelError(
        f"main holds a {type(expression).__name__}, which no graph executor runs; "
        "prepare the module first with tvm_ios.relay.prepare, or run it on TVM's virtual machine"
    )


def computed_values(order: Iterable[relay.Expr], params: Container[str] = ()) -> set[relay.Expr]:
    """Expressions of a post-order that depend on an input; ``params`` are inputs that are none."""
    found: set[relay.Expr] = set()
    for each in order:
        if isinstance(each, relay.Var):
            depends = each.name_hint not in params
        else:
            depends = not found.isdisjoint(children(each))
        if depends:
            found.add(each)
    return found


def readers_of(order: Iterable[relay.Expr]) -> Mapping[relay.Expr, Sequence[relay.Expr]]:
    """Expressions that read each expression, in the order given; what nobody reads has none."""
    readers: dict[relay.Expr, list[relay.Expr]] = defaultdict(list)
    for expression in order:
        for child in children(expression):
            readers[child].append(expression)
    return readers


def has_main(module: tvm.IRModule) -> bool:
    """True if a module has a function ``main``."""
    return "main" in {variable.name_hint for variable in module.get_global_vars()}


def callee(module: tvm.IRModule, call: relay.Call) -> relay.Function | None:
    """Relay function that a call runs; None where it calls an operator such as device_copy."""
    if isinstance(call.op, relay.Function):
        return call.op
    if isinstance(call.op, relay.GlobalVar):
        return module[call.op]
    return None


def local_function(call: relay.Call) -> relay.Function | None:
    """Fused function that a call holds; None where it calls a global or an operator."""
    return call.op if isinstance(call.op, relay.Function) else None


def kernel_calls(root: relay.Expr) -> list[relay.Call]:
    """Calls below ``root`` in TVM's order: one ``tvm_op`` node each."""
    return [expression for expression in graph_order(root) if isinstance(expression, relay.Call)]


def all_calls(root: relay.Expr) -> list[relay.Call]:
    """Calls in an expression, each after its arguments; functions are entered."""
    found: list[relay.Expr] = []
    relay.analysis.post_order_visit(root, found.append)
    return [expression for expression in found if isinstance(expression, relay.Call)]


def is_call_of(expression: relay.Expr, *names: str) -> bool:
    """True if an expression calls one of TVM's operators with these names."""
    return (
        isinstance(expression, relay.Call)
        and isinstance(expression.op, tvm.ir.Op)
        and expression.op.name in names
    )


def fusion_pattern(expression: relay.Expr) -> int:
    """Fusion pattern of an operator (``tvm.relay.op.OpPattern``), the freest kinds first.

    ``OPAQUE`` for operators without a pattern, and for expressions that call no operator.
    """
    operator = expression.op if isinstance(expression, relay.Call) else None
    pattern = operator.get_attr("TOpPattern") if isinstance(operator, tvm.ir.Op) else None
    return int(OpPattern.OPAQUE if pattern is None else pattern)


def resolve_field(expression: relay.Expr) -> relay.Expr:
    """Expression behind fields of tuples built on the spot: ``(a, b).1`` is ``b``."""
    while isinstance(expression, relay.TupleGetItem) and isinstance(
        expression.tuple_value, relay.Tuple
    ):
        expression = expression.tuple_value.fields[expression.index]
    return expression


def producers_of(argument: relay.Expr) -> list[relay.Call]:
    """Calls whose results an argument is made of."""
    pending, found = [argument], []
    while pending:
        expression = resolve_field(pending.pop())
        if isinstance(expression, relay.Call):
            found.append(expression)
        elif isinstance(expression, relay.Tuple):
            pending.extend(expression.fields)
        elif isinstance(expression, relay.TupleGetItem):
            pending.append(expression.tuple_value)
    return found


def copy_call(call: relay.Call, arguments: Iterable[relay.Expr]) -> relay.Call:
    """Call of the same kernel on other arguments."""
    return relay.Call(call.op, list(arguments), call.attrs, call.type_args, call.span)


def spanned(made: relay.Call, call: relay.Call) -> relay.Call:
    """Copy of a call that has the name of another one in the model."""
    return relay.Call(made.op, made.args, made.attrs, made.type_args, call.span)


def with_body(module: tvm.IRModule, body: relay.Expr) -> tvm.IRModule:
    """Module with another body of ``main``, types inferred."""
    main = module["main"]
    # TVM's modules change in place, and this one may be the caller's.
    new = tvm.IRModule(module.functions, module.type_definitions)
    function = relay.Function(main.params, body, main.ret_type, main.type_params, main.attrs)
    new[module.get_global_var("main")] = function
    return relay.transform.InferType()(new)


def rebuild(
    root: relay.Expr,
    known: dict[relay.Expr, relay.Expr],
    make_call: Callable[[relay.Call, list[relay.Expr]], relay.Expr],
) -> relay.Expr:
    """Copy of the expressions below ``root``, with replacements.

    Parameters
    ----------
    known
        Replacements; filled with the copies made here, so that later roots share them.
    make_call
        Function from a call and its new arguments to the call that takes its place.
    """
    for expression in graph_order(root):
        if expression in known:
            continue
        if isinstance(expression, relay.Call):
            arguments = [known[argument] for argument in expression.args]
            known[expression] = make_call(expression, arguments)
        elif isinstance(expression, relay.Tuple):
            known[expression] = relay.Tuple([known[field] for field in expression.fields])
        elif isinstance(expression, relay.TupleGetItem):
            field = relay.TupleGetItem(known[expression.tuple_value], expression.index)
            known[expression] = resolve_field(field)
        else:
            known[expression] = expression
    return known[root]
