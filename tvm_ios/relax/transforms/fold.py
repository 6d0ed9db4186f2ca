"""Folding of constants by NumPy: weights that are moved, and norms that become part of them.

TVM's own ``FoldConstant`` compiles and runs a kernel for every operator on constants, and lowers
all others to see whether it has one. So it gets what is left of those on constants, in a module of
their own: NumPy computes what moves data, and arithmetic that IEEE 754 rounds in one way only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from tvm_ios.relax.ir import (
    Constant,
    call_name,
    rebound_main,
    replace_variables,
    static_tensors,
    variables_in,
)

__all__ = ["fold_constants"]

Array = npt.NDArray[np.generic]


@tvm.transform.module_pass(opt_level=0, name="FoldConstants")  # type: ignore[untyped-decorator]
def fold_constants(module: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
    """Pass that computes operators on constants of ``main``; their bindings stay, unread."""
    del context
    module = _with_moved_and_summed(module)
    known = _computed_by_tvm(module)

    def new(variable: relax.Var, call: relax.Call) -> relax.Expr:
        if variable in known:
            return known[variable]
        if not any(each in known for each in variables_in(call)):
            return call
        return replace_variables(call, lambda each: known.get(each, each))

    return rebound_main(module, new)


def _computed_by_tvm(module: tvm.IRModule) -> dict[relax.Var, relax.Expr]:
    """Constants, and tuples of them, that TVM computes of constants alone, by their variables."""
    builder = relax.BlockBuilder()
    twins: dict[relax.Var, relax.Var] = {}

    def note(variable: relax.Var, call: relax.Call) -> relax.Expr:
        is_lowered = isinstance(call.op, tvm.ir.Op) and call.op.has_attr("FLegalize")
        if is_lowered and all(each in twins for each in variables_in(call)):
            twins[variable] = builder.emit(replace_variables(call, twins.__getitem__))
        return call

    with builder.function("main", []):
        with builder.dataflow():
            rebound_main(module, note)
            results = builder.emit_output(relax.Tuple([*twins.values()]))
        builder.emit_func_output(results)
    if not twins:
        return {}
    (block,) = relax.transform.FoldConstant()(builder.get())["main"].body.blocks
    made = {each.var: each.value for each in block.bindings}
    *_, all_of_them = made.values()
    values = [made.get(each, each) for each in all_of_them.fields]
    known = zip(twins, values, strict=True)
    return {variable: value for variable, value in known if not isinstance(value, relax.Call)}


def _with_moved_and_summed(module: tvm.IRModule) -> tvm.IRModule:
    """Module in which what NumPy computes exactly of constants is constant."""
    arrays: dict[relax.Var, Array] = {}
    constants: dict[relax.Var, relax.Expr] = {}

    def new(variable: relax.Var, call: relax.Call) -> relax.Expr:
        made = _folded(call, arrays)
        if made is not None:
            arrays[variable] = made
            constants[variable] = relax.const(made)
            return constants[variable]
        if not any(each in constants for each in variables_in(call)):
            return call
        return replace_variables(call, lambda each: constants.get(each, each))

    return rebound_main(module, new)


def _reshaped(value: Array, call: relax.Call, shape: tuple[int, ...]) -> Array:
    del call
    return value.reshape(shape)


def _transposed(value: Array, call: relax.Call, shape: tuple[int, ...]) -> Array:
    del shape
    axes = call.attrs.axes
    return np.ascontiguousarray(value.transpose(None if axes is None else [*map(int, axes)]))


def _in_blocks(value: Array, call: relax.Call, shape: tuple[int, ...]) -> Array | None:
    """Array whose axes are cut into whole blocks; None for another new order of elements."""
    axes = list(call.attrs.index_map.initial_indices)
    blocks: dict[int, int] = {}
    order = []
    for place in call.attrs.index_map.final_indices:
        if isinstance(place, tvm.tirx.IntImm) and int(place) == 0:
            continue  # an axis of one element
        is_cut = isinstance(place, tvm.tirx.FloorDiv | tvm.tirx.FloorMod)
        variable, block = (place.a, place.b) if is_cut else (place, 1)
        axis = next((n for n, each in enumerate(axes) if each.same_as(variable)), None)
        if axis is None or not isinstance(block, int | tvm.tirx.IntImm):
            return None
        if blocks.setdefault(axis, int(block)) != block or value.shape[axis] % int(block):
            return None
        order.append(2 * axis + isinstance(place, tvm.tirx.FloorMod))
    sizes = [(extent, blocks.get(axis, 1)) for axis, extent in enumerate(value.shape)]
    cut = value.reshape([n for extent, block in sizes for n in (extent // block, block)])
    order += [axis for axis, extent in enumerate(cut.shape) if axis not in order and extent == 1]
    if sorted(order) != [*range(cut.ndim)]:
        return None
    return np.ascontiguousarray(cut.transpose(order).reshape(shape))


MOVES: Mapping[str, Callable[[Array, relax.Call, tuple[int, ...]], Array | None]] = (
    MappingProxyType(
        {
            "relax.expand_dims": _reshaped,
            "relax.layout_transform": _in_blocks,
            "relax.permute_dims": _transposed,
            "relax.reshape": _reshaped,
            "relax.squeeze": _reshaped,
        }
    )
)
"""Functions on arrays for operators that move the data of their first argument."""
ARITHMETIC: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {
        "relax.add": np.add,
        "relax.divide": np.divide,
        "relax.multiply": np.multiply,
        "relax.negative": np.negative,
        "relax.sqrt": np.sqrt,
        "relax.subtract": np.subtract,
    }
)
"""Functions on float32 arrays for operators whose results IEEE 754 rounds in one way only."""


def _folded(call: relax.Call, arrays: Mapping[relax.Var, Array]) -> Array | None:
    """Constant that a call makes; None where it makes none."""
    name, made = call_name(call), static_tensors(call.ty)
    if name not in {*MOVES, *ARITHMETIC} or made is None:
        return None
    given = []
    for each in call.args[:1] if name in MOVES else call.args:
        if each not in arrays and not isinstance(each, Constant):
            return None
        given.append(arrays[each] if each in arrays else each.value.numpy())
    if name in MOVES:
        return MOVES[name](given[0], call, made[0].shape)
    value = _calculated(ARITHMETIC[name], given)
    return None if value is None or value.shape != made[0].shape else value


def _calculated(function: Callable[..., Array], given: list[Array]) -> Array | None:
    """Finite float32 numbers; None for others."""
    if any(value.dtype != np.float32 for value in given):
        return None
    with np.errstate(all="ignore"):
        value = np.asarray(function(*given))
    return value if np.isfinite(value).all() else None
