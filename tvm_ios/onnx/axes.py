"""Axes as numbers from zero on, and shapes of what goes along one of them."""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.values import extents, required

__all__ = ["along", "axis_of", "nonnegative", "rank_of"]


def rank_of(value: ir.Value) -> int:
    """Number of axes of a tensor."""
    return len(extents(value))


def nonnegative(axis: int, rank: int) -> int:
    """An axis counted from the first one. Raises ModelError for an axis that there is not."""
    if not -rank <= axis < rank:
        raise ModelError(f"has axis {axis}, of {rank} axes; give one from {-rank} to {rank - 1}")
    return axis % rank


def axis_of(node: ir.Node, usual: int) -> int:
    """The axis that a node says for its first input, counted from the first one."""
    return nonnegative(node.attributes.get_int("axis", usual), rank_of(required(node)))


def along(rank: int, sizes: Iterable[tuple[int, int]]) -> list[int]:
    """Shape that broadcasts to tensors of a rank: these axes have a size, all others have one."""
    shape = [1] * rank
    for axis, size in sizes:
        shape[axis] = size
    return shape
