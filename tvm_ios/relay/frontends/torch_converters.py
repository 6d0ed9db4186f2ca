"""Converters of our own, for operators of PyTorch that TVM's importer gets wrong."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import tvm
from tvm import relay
from tvm.relay.frontend.pytorch import PyTorchOpConverter, _convert_dtype_value
from tvm.relay.prelude import Prelude

from tvm_ios.relay.frontends.exact_arithmetic import extreme, round_to_even
from tvm_ios.relay.frontends.torch_indexing import indexing_converters
from tvm_ios.relay.frontends.torch_layers import Converter, layer_converters
from tvm_ios.relay.frontends.torch_quantised import quantised_converters

__all__ = ["converters", "known_operators"]


def converters() -> dict[str, Converter]:
    """Converters that take the place of TVM's, by operator."""
    tvms = _converter()
    tvms.types.clear()  # of models that were imported before
    return {
        "aten::add": _add,
        "aten::bitwise_left_shift": _tvms("aten::__lshift__"),
        "aten::bitwise_not": _bitwise_not,
        "aten::bitwise_right_shift": _tvms("aten::__rshift__"),
        "aten::clamp": _clamp,
        "aten::clamp_max": lambda inputs, types: _clamp([inputs[0], None, inputs[1]], types),
        "aten::clamp_min": _clamp,
        "aten::div": _div,
        "aten::full": _full,
        "aten::full_like": _full_like,
        "aten::mv": tvms.matmul,
        "aten::ones_like": lambda inputs, types: _full_like([inputs[0], 1, inputs[1]], types),
        "aten::roll": _roll,
        "aten::round": _round,
        "aten::square": lambda inputs, _: inputs[0] * inputs[0],
        "aten::to": _to,
        "aten::true_divide": _div,
        "aten::zeros_like": lambda inputs, types: _full_like([inputs[0], 0, inputs[1]], types),
        **{f"aten::{name}": _bitwise(operation) for name, operation in _BITWISE.items()},
        **{f"aten::{name}": _extreme(f"aten::{name}") for name in ("amax", "amin", "max", "min")},
        **{f"aten::{name}": _of_real(f"aten::{name}") for name in _OF_REALS},
        **{f"aten::{name}": _widened(f"aten::{name}") for name in ("cumsum", "prod", "sum")},
        **indexing_converters(tvms),
        **layer_converters(tvms),
        **quantised_converters(tvms),
    }


@cache
def known_operators() -> frozenset[str]:
    """Operators that there are converters for, right or wrong."""
    return frozenset({*_converter().convert_map, *converters()})


@cache
def _converter() -> PyTorchOpConverter:
    return PyTorchOpConverter(Prelude(tvm.IRModule()), "float32")


def _tvms(name: str) -> Converter:
    return _converter().convert_map[name]  # type: ignore[no-any-return]


def _dtype(value: Any) -> str:
    return str(_converter().infer_type(value).dtype)


def _shape(value: Any) -> tuple[Any, ...]:
    return tuple(_converter().infer_shape(value))


def _is_whole(dtype: str) -> bool:
    return "int" in dtype or dtype == "bool"


def _add(inputs: list[Any], types: Sequence[str]) -> Any:
    """A sum, the second term ``alpha`` times; of truth values, whether one is true."""
    if types[0] == "ListType":
        return _converter().add(inputs, types)
    first, second = _converter().pytorch_promote_types(inputs[:2], types[:2])
    dtype, alpha = _dtype(first), inputs[2] if len(inputs) > 2 else 1
    if dtype == "bool":
        return relay.logical_or(first, second)
    if isinstance(alpha, relay.Expr):
        second = relay.cast(alpha, dtype) * second
    elif alpha != 1:
        second = relay.const(alpha, dtype) * second
    return relay.add(first, second)


_BITWISE = {
    "__and__": "and",
    "__or__": "or",
    "__xor__": "xor",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}


def _bitwise(operation: str) -> Converter:
    """An operator on bits, of the data type of both; of truth values on those."""

    def convert(inputs: list[Any], types: Sequence[str]) -> Any:
        first, second = _converter().pytorch_promote_types(inputs[:2], types[:2])
        kind = "logical" if _dtype(first) == "bool" else "bitwise"
        return getattr(relay, f"{kind}_{operation}")(first, second)

    return convert


def _bitwise_not(inputs: list[Any], types: Sequence[str]) -> Any:  # noqa: ARG001
    """Inversion of each bit; TVM's own goes through int32."""
    is_truth = _dtype(inputs[0]) == "bool"
    return relay.logical_not(inputs[0]) if is_truth else relay.bitwise_not(inputs[0])


def _clamp(inputs: list[Any], types: Sequence[str]) -> Any:
    """Values within bounds, of which one may be missing, or be a tensor; TVM's own are finite."""
    given = [place for place, each in enumerate(inputs[:3]) if each is not None]
    kinds = [types[place] if place < len(types) else "float" for place in given]
    plain = not any(isinstance(inputs[place], relay.Expr) for place in given[1:])
    if plain and len(given) == 3 and _dtype(inputs[0]).startswith("float"):
        low, high = float(inputs[1]), float(inputs[2])
        return relay.clip(inputs[0], min(low, high), high)
    promoted = _converter().pytorch_promote_types([inputs[place] for place in given], kinds)
    value, *bounds = promoted
    for place, bound in zip(given[1:], bounds, strict=True):
        value = relay.maximum(value, bound) if place == 1 else relay.minimum(value, bound)
    return value


def _div(inputs: list[Any], types: Sequence[str]) -> Any:
    """A quotient, rounded as torch is asked for; that of whole numbers stays whole if it is."""
    first, second = _converter().pytorch_promote_types(inputs[:2], types[:2])
    whole = _is_whole(_dtype(first))
    if len(inputs) < 3 or inputs[2] is None:
        if whole:
            first, second = (relay.cast(each, "float32") for each in (first, second))
        return relay.divide(first, second)
    if inputs[2] == "floor":
        return relay.floor_divide(first, second)
    return relay.divide(first, second) if whole else relay.trunc(relay.divide(first, second))


def _extreme(name: str) -> Converter:
    """The greatest or the least values: of a tensor, along an axis with no places, or of two."""

    def convert(inputs: list[Any], types: Sequence[str]) -> Any:
        if len(inputs) == 2 and isinstance(inputs[1], relay.Expr):
            return _tvms(name)(inputs, types)
        rest = inputs[1:]
        along = name in ("aten::max", "aten::min") and bool(rest)

        def reduce(value: relay.Expr) -> relay.Expr:
            found = _tvms(name)([value, *rest], types)
            return found[0] if isinstance(found, tuple) else found

        found = extreme(reduce, inputs[0], _dtype(inputs[0]))
        return (found, None) if along else found

    return convert


def _full(inputs: list[Any], types: Sequence[str]) -> Any:
    """A tensor of one number, whose kind tells the data type where nothing else does."""
    size, number, code, *rest = inputs
    if code is None:
        code = {bool: 11, int: 4}.get(type(number))
    return _tvms("aten::full")([size, number, code, *rest], types)


def _full_like(inputs: list[Any], types: Sequence[str]) -> Any:  # noqa: ARG001
    """A tensor of one number, of the data type of the first input if no other is given."""
    data, number, code = inputs[:3]
    dtype = _dtype(data) if code is None else _convert_dtype_value(code)
    if isinstance(number, relay.Expr):
        number = relay.cast(number, dtype)
    else:
        number = relay.const(number, dtype)
    return relay.full(number, _shape(data), dtype)


_OF_REALS = (
    *("acos", "asin", "atan", "cos", "cosh", "erf", "exp", "log", "log10", "log1p", "log2"),
    *("reciprocal", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh"),
)


def _of_real(name: str) -> Converter:
    """A function of real numbers, which makes such of whole ones."""

    def convert(inputs: list[Any], types: Sequence[str]) -> Any:
        if not _is_whole(_dtype(inputs[0])):
            return _tvms(name)(inputs, types)
        return _tvms(name)([relay.cast(inputs[0], "float32"), *inputs[1:]], ["float32"])

    return convert


def _roll(inputs: list[Any], types: Sequence[str]) -> Any:
    """Values moved along axes; along the flattened tensor where there are none."""
    data, shifts, axes = inputs
    shape = _shape(data)
    if not axes:
        return relay.reshape(_roll([relay.reshape(data, [-1]), shifts, [0]], types), shape)
    for shift, named in zip(shifts, axes, strict=True):
        axis = named % len(shape)
        if place := -shift % shape[axis]:
            ends = ((place, shape[axis]), (0, place))
            parts = [relay.strided_slice(data, [a], [b], axes=[axis]) for a, b in ends]
            data = relay.concatenate(parts, axis)
    return data


def _round(inputs: list[Any], types: Sequence[str]) -> Any:  # noqa: ARG001
    """The nearest whole numbers, the even one of two."""
    dtype = _dtype(inputs[0])
    return inputs[0] if _is_whole(dtype) else round_to_even(inputs[0], dtype)


def _to(inputs: list[Any], types: Sequence[str]) -> Any:
    """A cast, to any data type or to another tensor's; TVM's own passes over the narrow ones."""
    data, other = inputs[:2]
    if not isinstance(data, relay.Expr):
        return _tvms("aten::to")(inputs, types)
    if isinstance(other, relay.Expr):
        return relay.cast(data, types[1])
    code = inputs[2] if isinstance(other, str) else other  # after a device
    if code is None or isinstance(code, bool):
        return data
    dtype = _convert_dtype_value(code)
    return data if _dtype(data) == dtype else relay.cast(data, dtype)


def _widened(name: str) -> Converter:
    """A sum or product, of whole numbers as int64 if torch is asked for no data type."""

    def convert(inputs: list[Any], types: Sequence[str]) -> Any:
        dtype = _dtype(inputs[0])
        if inputs[-1] is None and _is_whole(dtype) and dtype != "int64":
            inputs = [relay.cast(inputs[0], "int64"), *inputs[1:]]
        return _tvms(name)(inputs, types)

    return convert
