"""Folding of constants by NumPy: layouts, shapes, axes and types of weights, parts of batch norms.

Goes before TVM's own ``FoldConstant``, which compiles and runs a kernel for every operator on
constants; that took 60 % of the time of a build. Nearly all of them move data, round it to float16,
or are arithmetic that IEEE 754 rounds in one way only. All others are left to TVM.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relay

from tvm_ios.relay.constants import DATA_TYPES, constant
from tvm_ios.relay.dataflow import copy_call, rebuild, with_body

__all__ = ["fold_exactly", "transform_layout"]

Array = npt.NDArray[np.generic]

EXACT_CASTS = frozenset({("float32", "float16"), ("float16", "float32")})


def fold_exactly(module: tvm.IRModule) -> tvm.IRModule:
    """Module in which calls that move, cast, add, multiply or divide constants are constants.

    Roots and signs of constants as well. The constants are the ones that ``FoldConstant`` computes,
    bit by bit. A result of rank 0 is left to that pass: a scalar that shows early is one more that
    TVM simplifies. Fused functions are not entered.
    """
    main = module["main"]
    constants: dict[relay.Expr, Array] = {}
    folded = 0

    def fold(call: relay.Call, arguments: list[relay.Expr]) -> relay.Expr:
        nonlocal folded
        value = _folded(call, arguments, constants)
        if value is None:
            return copy_call(call, arguments)
        folded += 1
        made = constant(value)
        constants[made] = value
        return made

    body = rebuild(main.body, {}, fold)
    return with_body(module, body) if folded else module


def transform_layout(value: Array, source: str, destination: str) -> Array | None:
    """Array after ``layout_transform``; None where that would have to pad.

    Parameters
    ----------
    source, destination
        TVM layouts, such as ``OIHW`` and ``OIHW8i16o``: a capital letter is an axis, a small one
        with a number before it the inner part of that axis.
    """
    sources, destinations = _axes(source), _axes(destination)
    if sources is None or destinations is None or len(sources) != value.ndim:
        return None
    extents = {axis: extent for (axis, _), extent in zip(sources, value.shape, strict=True)}
    if any(extents[axis] != block for axis, block in sources if block is not None):
        return None
    whole = [axis for axis in extents if axis.isupper()]
    outer_first = [axis for letter in whole for axis in (letter, letter.lower()) if axis in extents]
    if {axis for axis, _ in destinations if axis.isupper()} != set(whole):
        return None
    if len(outer_first) != len(sources):
        return None
    plain_shape = {
        letter: math.prod(extents.get(axis, 1) for axis in (letter, letter.lower()))
        for letter in whole
    }
    blocks = {axis: block for axis, block in destinations if block is not None}
    if any(
        axis.upper() not in plain_shape or plain_shape[axis.upper()] % block
        for axis, block in blocks.items()
    ):
        return None
    order = [axis for axis, _ in sources]
    plain = value.transpose([order.index(axis) for axis in outer_first])
    split: dict[str, int] = {}
    for letter in whole:
        block = blocks.get(letter.lower())
        split[letter] = plain_shape[letter] // (block or 1)
        if block is not None:
            split[letter.lower()] = block
    parts = list(split)
    return plain.reshape(tuple(split.values())).transpose(
        [parts.index(axis) for axis, _ in destinations]
    )


def _axes(layout: str) -> list[tuple[str, int | None]] | None:
    """Axes of a layout with their block sizes; None where the text has anything else."""
    found = re.findall(r"([A-Z])|([1-9]\d*)([a-z])", layout)
    axes = [(whole or inner, int(block) if block else None) for whole, block, inner in found]
    text = "".join(axis if block is None else f"{block}{axis}" for axis, block in axes)
    names = {axis for axis, _ in axes}
    return axes if text == layout and len(names) == len(axes) else None


def _reshaped(value: Array, call: relay.Call) -> Array | None:
    return value.reshape([int(extent) for extent in call.checked_type.shape])


def _transposed(value: Array, call: relay.Call) -> Array | None:
    axes = call.attrs.axes
    return value.transpose(None if axes is None else [int(axis) for axis in axes])


def _laid_out(value: Array, call: relay.Call) -> Array | None:
    return transform_layout(value, str(call.attrs.src_layout), str(call.attrs.dst_layout))


def _cast(value: Array, call: relay.Call) -> Array | None:
    """Array rounded to nearest even, as TVM rounds; None where the bits may differ."""
    types = (str(value.dtype), str(call.attrs.dtype))
    if types not in EXACT_CASTS or np.isnan(value).any():
        return None
    with np.errstate(over="ignore"):
        return value.astype(types[1])


MOVES: Mapping[str, Callable[[Array, relay.Call], Array | None]] = MappingProxyType(
    {
        "cast": _cast,
        "expand_dims": _reshaped,
        "layout_transform": _laid_out,
        "reshape": _reshaped,
        "squeeze": _reshaped,
        "transpose": _transposed,
    }
)
"""Functions on arrays for operators of one argument that move data or cast them."""


ARITHMETIC: Mapping[str, Callable[..., Array]] = MappingProxyType(
    {
        "add": np.add,
        "divide": np.divide,
        "multiply": np.multiply,
        "negative": np.negative,
        "sqrt": np.sqrt,
        "subtract": np.subtract,
    }
)
"""Functions on float32 arrays for operators whose results IEEE 754 rounds in one way only."""


def _folded(
    call: relay.Call, arguments: list[relay.Expr], constants: dict[relay.Expr, Array]
) -> Array | None:
    """Constant that a call makes; None where it makes none."""
    if not isinstance(call.op, tvm.ir.Op) or call.op.name not in {*MOVES, *ARITHMETIC}:
        return None
    if not all(isinstance(argument, relay.Constant) for argument in arguments):
        return None
    type_ = call.checked_type
    static = all(isinstance(extent, tvm.tir.IntImm) for extent in type_.shape)
    if not static or len(type_.shape) == 0 or str(type_.dtype) not in DATA_TYPES:
        return None
    given = [
        argument.data.numpy() if argument not in constants else constants[argument]
        for argument in arguments
    ]
    if call.op.name in MOVES:
        value = MOVES[call.op.name](given[0], call)
    else:
        value = _calculated(ARITHMETIC[call.op.name], given)
    shape = tuple(int(extent) for extent in type_.shape)
    return value if value is not None and value.shape == shape and value.size else None


def _calculated(function: Callable[..., Array], given: list[Array]) -> Array | None:
    """Normal float32 numbers; None for others, whose bits may differ."""
    if any(value.dtype != np.float32 for value in given):
        return None
    with np.errstate(all="ignore"):
        value = function(*given)
    least = np.finfo(np.float32).tiny
    exact = np.isfinite(value) & ((np.abs(value) >= least) | (value == 0))
    return value if exact.all() else None
