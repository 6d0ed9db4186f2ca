"""Indices that count from the first place of an axis, where negative ones count from its end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.values import constant, dtype_of

__all__ = ["from_first"]


def from_first(op: Builder, indices: ir.Value, extents: int | Sequence[int]) -> ir.Value:
    """The indices without negative ones: the very same value where it has none.

    ``extents`` broadcast to the indices. Raises ModelError for a constant outside.
    """
    sizes = np.array(extents, "int64")
    known = constant(indices)
    if known is not None:
        if (known >= sizes).any() or (known < -sizes).any():
            raise ModelError(
                f"has indices from {known.min()} to {known.max()} into {sizes.tolist()} places; "
                "give indices within them"
            )
        return (
            op.const(np.where(known < 0, known + sizes, known).astype(known.dtype))
            if (known < 0).any()
            else indices
        )
    if _never_negative(indices) or _is_moved(indices, sizes):
        return indices
    dtype = dtype_of(indices)
    negative = op.op("Less", indices, op.const(np.zeros((), dtype)))
    return op.op("Where", negative, op.op("Add", indices, op.const(sizes.astype(dtype))), indices)


_COUNTING = ("ArgMax", "ArgMin", "NonZero", "TopK")
"""Operators whose whole numbers are places from the first one on."""
_MOVING = ("Cast", "Expand", "Reshape", "Slice", "Split", "Transpose")
"""Operators that keep their first input's numbers as they are."""


def _never_negative(value: ir.Value) -> bool:
    node = value.producer()
    while node is not None:
        if node.op_type in _COUNTING:
            return True
        source = node.inputs[0] if node.inputs else None
        if node.op_type not in _MOVING or source is None:
            return False
        if dtype_of(source).kind in "bu":
            return True
        node = source.producer()
    return False


def _is_moved(value: ir.Value, sizes: np.ndarray) -> bool:
    """Whether a value is what :func:`from_first` makes."""
    node = value.producer()
    if node is None or node.op_type != "Where":
        return False
    producers = [each.producer() for each in node.inputs if each is not None]
    test, moved = producers[0], producers[1]
    if test is None or moved is None or (test.op_type, moved.op_type) != ("Less", "Add"):
        return False
    indices, added = moved.inputs[0], constant(moved.inputs[1])
    same = test.inputs[0] is indices and node.inputs[2] is indices
    return same and added is not None and np.array_equal(added, sizes)
