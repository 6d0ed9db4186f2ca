"""Moves of elements that become fewer: transposes of transposes, and those that move nothing.

Comes after layouts are changed: an image of one pixel has its channels in order in any of them, and
what a model transposes to have channels last is then as it wants it.
"""

from __future__ import annotations

import tvm
from tvm import relax

from tvm_ios.relax.ir import Constant, call_name, rebound_main, static_tensors

__all__ = ["with_equal_splits", "with_fewer_moves", "with_whole_ranks"]

OF_ELEMENTS = frozenset(
    f"relax.{name}"
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
)
"""Operators of two tensors that are broadcast."""
IMAGES = 4
"""Axes of images."""


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


@tvm.transform.module_pass(opt_level=0, name="WithWholeRanks")  # type: ignore[untyped-decorator]
def with_whole_ranks(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass after which constants that are broadcast to images have all axes of them.

    Comes before layouts are changed: TVM turns images back where a constant has fewer.
    """
    del context

    def new(_: relax.Var, call: relax.Call) -> relax.Expr:
        made = static_tensors(call.ty)
        if call_name(call) not in OF_ELEMENTS or made is None or len(made[0].shape) != IMAGES:
            return call
        arguments = list(map(_with_all_axes, call.args))
        if all(one.same_as(other) for one, other in zip(arguments, call.args, strict=True)):
            return call
        return relax.Call(call.op, arguments, call.attrs, call.ty_args)

    def _with_all_axes(value: relax.Expr) -> relax.Expr:
        if not isinstance(value, Constant) or not 0 < len(value.value.shape) < IMAGES:
            return value
        array = value.value.numpy()
        return relax.const(array.reshape((1,) * (IMAGES - array.ndim) + array.shape))

    return rebound_main(module, new)


@tvm.transform.module_pass(opt_level=0, name="WithEqualSplits")  # type: ignore[untyped-decorator]
def with_equal_splits(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass after which splits into equal pieces have their number in place of indices.

    Comes before layouts are changed: TVM takes indices of channels for those of their blocks.
    """
    del context

    def new(_: relax.Var, call: relax.Call) -> relax.Expr:
        pieces = static_tensors(call.ty)
        if call_name(call) != "relax.split" or pieces is None or len(set(pieces)) > 1:
            return call
        return relax.op.split(call.args[0], len(pieces), call.attrs.axis)

    return rebound_main(module, new)


def _keeps_order(value: relax.Expr, axes: list[int]) -> bool:
    """True if only axes of one element change places."""
    given = static_tensors(value.ty)
    moved = [axis for axis in axes if given is None or given[0].shape[axis] != 1]
    return moved == sorted(moved)
