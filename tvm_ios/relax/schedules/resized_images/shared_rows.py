"""Loops of resized images, whose rows are made of a few rows that others are made of, too.

Tried before other loops. Rows of the image are resized along themselves once.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx import Expr as Value

from tvm_ios.relax.schedules.injective import inlined
from tvm_ios.relax.schedules.resized_images.resized import known_number, with_known_places
from tvm_ios.relax.schedules.resized_images.shared_row_loops import SharedRowLoops, SharedRows
from tvm_ios.relax.schedules.strides import Axis
from tvm_ios.relax.schedules.tiles import is_conditional, loads_of, uses, with_loops
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["with_shared_rows"]


def with_shared_rows(function: tvm.tirx.PrimFunc, lanes: int) -> tvm.tirx.PrimFunc | None:
    """Kernel that resizes each row of an image once; None for others."""
    block = inlined(function)
    # TVM computes weights of other places than its own in another order.
    if block is None or not isinstance(block.body, tirx.BufferStore) or not bits_may_change():
        return None
    axes = [Axis(each.var, int(each.dom.extent)) for each in block.iter_vars]
    axes = [axis for axis in axes if axis.extent > 1]
    for number, row in enumerate(axes[:-1]):
        shared = _shared(block.body.value, row)
        if shared is not None:
            inner = axes[number + 1 :]
            loops = SharedRowLoops(block.body, shared, axes[:number], row, inner, lanes)
            return with_known_places(with_loops(function, loops.all()))
    return None


def _shared(value: Value, row: Axis) -> SharedRows | None:
    """Resized rows of the image that several rows of the result are made of; None without any."""
    source = tirx.Var("source", row.variable.ty.dtype)
    found: list[tuple[Value, Value]] = []
    parts: list[tirx.Var] = []

    def part(expression: Value) -> Value:
        one = _of_one_row(expression, row.variable, source)
        if one is None:
            return expression
        found.append(one)
        parts.append(tirx.Var("part", str(expression.ty)))
        return parts[-1]

    combined = tvm_ffi.structural_map(value, (Value, part), order="pre")
    rows, elements = [each for each, _ in found], [each for _, each in found]
    if len(rows) < 2 or not all(tvm_ffi.structural_equal(elements[0], each) for each in elements):
        return None
    if is_conditional(combined):
        return None  # it may keep out what lies beyond an image
    places = [[known_number(each, row.variable, at) for at in range(row.extent)] for each in rows]
    if any(None in each for each in places):
        return None
    first, last = ([least(each) for each in zip(*places, strict=True)] for least in (min, max))
    if first not in places or last not in places or sorted(first) != first or sorted(last) != last:
        return None
    if last[-1] - first[0] + 1 >= len(rows) * row.extent:
        return None  # each row of the image is wanted once
    ends = places.index(first), places.index(last)
    return SharedRows(elements[0], source, rows, combined, parts, first, last, ends)


def _of_one_row(expression: Value, row: tirx.Var, source: tirx.Var) -> tuple[Value, Value] | None:
    """Row of the image that an element is computed of, and the element of any row.

    None where there are several rows, or no numbers are combined.
    """
    loads = loads_of(expression)
    rows = [index for load in loads for index in load.indices if uses(index, row)]
    if len(loads) < 2 or len(rows) != len(loads) or rows[0].same_as(row):
        return None
    if not all(tvm_ffi.structural_equal(rows[0], each) for each in rows[1:]):
        return None

    def other(index: Value) -> Value:
        return source if tvm_ffi.structural_equal(index, rows[0]) else index

    element = tvm_ffi.structural_map(expression, (Value, other), order="pre")
    return None if uses(element, row) else (rows[0], element)
