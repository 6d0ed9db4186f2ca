"""Moves of elements that become fewer: transposes of transposes, and those that move nothing.

Comes after layouts are changed: an image of one pixel has its channels in order in any of them, and
what a model transposes to have channels last is then as it wants it.
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_ios.relax.ir import call_name, rebound_main, static_tensors

__all__ = ["with_fewer_moves"]


@tvm.transform.module_pass(opt_level=0, name="WithFewerMoves")  # type: ignore[untyped-decorator]
def with_fewer_moves(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass after which transposes and reshapes of one another are one; unread bindings stay."""
    del context
    transposed: dict[relax.Var, tuple[relax.Expr, list[int]]] = {}
    reshaped: dict[relax.Var, relax.Expr] = {}

    def new(variable: relax.Var, call: relax.Call) -> relax.Expr:
        made, name = static_tensors(call.ty), call_name(call)
        if made is None or name not in ("relax.permute_dims", "relax.reshape"):
            return call
        source = call.args[0]
        if name == "relax.permute_dims":
            axes = list(map(int, call.attrs.axes or range(len(made[0].shape))[::-1]))
            if source in transposed:
                source, inner = transposed[source]
                axes = [inner[axis] for axis in axes]
            transposed[variable] = source, axes
            if axes == sorted(axes):
                return source
            if not _keeps_order(source, axes):
                return relax.op.permute_dims(source, axes)
        reshaped[variable] = source = reshaped.get(source, source)
        return relax.op.reshape(source, made[0].shape)

    module = rebound_main(module, new)
    return relax.transform.CanonicalizeBindings()(module)


def _keeps_order(value: relax.Expr, axes: list[int]) -> bool:
    """True if only axes of one element change places."""
    given = static_tensors(value.ty)
    moved = [axis for axis in axes if given is None or given[0].shape[axis] != 1]
    return moved == sorted(moved)
