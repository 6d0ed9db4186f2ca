"""Elements that moves of data read, by number, and the strides that they lie at."""

from __future__ import annotations

from math import prod

import numpy as np
from tvm import relay, tir

from tvm_ios.relay.attention.values import Digit, Operand
from tvm_ios.relay.constants import is_scalar, values_of
from tvm_ios.relay.dataflow import is_call_of
from tvm_ios.relay.functions.shapes import RESHAPES, static_shape
from tvm_ios.relay.row_kernels.values import UnsuitableError

__all__ = ["MOVES", "Moved", "moved", "operand", "shape_of", "whole"]

MOVES = (*RESHAPES, "broadcast_to", "split", "strided_slice", "take", "transpose")
"""Operators that move whole axes, repeat them or take a part of them."""
MOST_DIGITS = 3


class Moved:
    """A tensor whose elements are those of a parameter, times a number."""

    def __init__(self, parameter: relay.Var, numbers: np.ndarray, factor: float) -> None:
        self.parameter, self.factor = parameter, factor
        self.numbers = numbers
        """Number of the parameter's element for each element."""


def whole(parameter: relay.Var, shape: tuple[int, ...]) -> Moved:
    """A whole tensor of a shape, as it is."""
    return Moved(parameter, np.arange(prod(shape), dtype=np.int32).reshape(shape), 1.0)


def moved(expression: relay.Expr, known: dict[relay.Expr, object]) -> Moved:
    """Parameter that moves, and products with numbers, read, and which of its elements.

    ``known`` remembers what was found before.

    Raises
    ------
    UnsuitableError
        If there are other operators in it.
    """
    if expression not in known:
        known[expression] = _moved(expression, known)
    found = known[expression]
    if not isinstance(found, Moved):
        raise UnsuitableError
    return found


def _moved(expression: relay.Expr, known: dict[relay.Expr, object]) -> object:
    if isinstance(expression, relay.Var):
        return whole(expression, shape_of(expression))
    if isinstance(expression, relay.TupleGetItem):
        return _field(expression, known)
    if not isinstance(expression, relay.Call):
        raise UnsuitableError
    if is_call_of(expression, "multiply", "divide"):
        return _scaled(expression, known)
    if not is_call_of(expression, *MOVES):
        raise UnsuitableError
    before = moved(expression.args[0], known)
    return Moved(before.parameter, _numbers(expression, before.numbers), before.factor)


def _numbers(call: relay.Call, before: np.ndarray) -> np.ndarray:
    if is_call_of(call, "transpose"):
        axes = call.attrs.axes
        return before.transpose(None if axes is None else [int(axis) for axis in axes])
    if is_call_of(call, "take"):
        return _taken(call, before)
    if is_call_of(call, "strided_slice"):
        return _sliced(call, before)
    shape = shape_of(call)
    return (
        np.broadcast_to(before, shape)
        if is_call_of(call, "broadcast_to")
        else before.reshape(shape)
    )


def _taken(call: relay.Call, before: np.ndarray) -> np.ndarray:
    """Elements that are left where one place along an axis is taken."""
    if not is_scalar(call.args[1]) or call.attrs.axis is None:
        raise UnsuitableError
    axis, place = int(call.attrs.axis), int(values_of(call.args[1]))
    if not 0 <= place < before.shape[axis]:
        raise UnsuitableError
    taken: np.ndarray = before.take(place, axis)
    return taken


def _sliced(call: relay.Call, before: np.ndarray) -> np.ndarray:
    attributes = call.attrs
    begins, ends = ([int(each) for each in row] for row in (attributes.begin, attributes.end))
    axes = attributes.axes
    places = range(len(begins)) if axes is None else [int(axis) for axis in axes]
    parts = [slice(None)] * before.ndim
    for axis, begin, end in zip(places, begins, ends, strict=True):
        parts[axis] = slice(begin, end)
    part = before[tuple(parts)]
    if any(int(step) != 1 for step in attributes.strides) or part.shape != shape_of(call):
        raise UnsuitableError
    return part


def _field(field: relay.TupleGetItem, known: dict[relay.Expr, object]) -> Moved:
    split = field.tuple_value
    if not is_call_of(split, "split"):
        raise UnsuitableError
    before, axis = moved(split.args[0], known), int(split.attrs.axis)
    types = split.checked_type.fields
    ends = np.cumsum([int(each.shape[axis]) for each in types])[:-1]
    part = np.split(before.numbers, ends, axis)[field.index]
    return Moved(before.parameter, part, before.factor)


def _scaled(call: relay.Call, known: dict[relay.Expr, object]) -> Moved:
    first, second = call.args
    if is_scalar(first) and is_call_of(call, "multiply"):
        first, second = second, first
    if not is_scalar(second):
        raise UnsuitableError
    before, number = moved(first, known), float(values_of(second))
    factor = before.factor * (number if is_call_of(call, "multiply") else 1 / number)
    return Moved(before.parameter, before.numbers, factor)


def operand(buffer: tir.Buffer, numbers: np.ndarray) -> Operand:
    """Matrices of elements with these numbers, by head, row and column.

    Raises
    ------
    UnsuitableError
        If they do not lie at fixed strides.
    """
    begin = numbers[:, 0, 0].astype(np.int64)
    rows = int(numbers[0, 1, 0] - begin[0]) if numbers.shape[1] > 1 else 0
    columns = int(numbers[0, 0, 1] - begin[0]) if numbers.shape[2] > 1 else 0
    found = np.add.outer(
        begin,
        np.add.outer(rows * np.arange(numbers.shape[1]), columns * np.arange(numbers.shape[2])),
    )
    if not np.array_equal(found, numbers):
        raise UnsuitableError
    return Operand(
        buffer=buffer,
        begin=int(begin[0]),
        digits=_digits(begin - begin[0]),
        rows=rows,
        columns=columns,
    )


def _digits(begins: np.ndarray) -> tuple[Digit, ...]:
    """Digits of the number of a head that say where its matrix begins."""
    digits: list[Digit] = []
    divisor = 1
    while divisor < len(begins) and len(digits) < MOST_DIGITS:
        rest = begins[::divisor]
        stride = int(rest[1])
        # The longest run at one stride that divides what is left.
        runs = (
            each
            for each in range(len(rest), 1, -1)
            if len(rest) % each == 0 and np.array_equal(rest[:each], stride * np.arange(each))
        )
        extent = next(runs, 0)
        if not extent:
            raise UnsuitableError
        digits.append(Digit(divisor=divisor, extent=extent, stride=stride))
        divisor *= extent
    heads = np.arange(len(begins))
    found = sum(
        (heads // each.divisor % each.extent * each.stride for each in digits),
        np.zeros(len(begins), dtype=np.int64),
    )
    if not np.array_equal(found, begins):
        raise UnsuitableError
    return tuple(each for each in digits if each.stride)


def shape_of(expression: relay.Expr) -> tuple[int, ...]:
    """Static extents of a tensor.

    Raises
    ------
    UnsuitableError
        If one is dynamic, or there are several tensors.
    """
    shape = static_shape(expression)
    if shape is None:
        raise UnsuitableError
    return shape
