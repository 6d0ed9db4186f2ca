"""Converters of products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from tvm import relay

from tvm_ios.onnx.values import extents
from tvm_ios.relay.frontends.onnx.converters.converter import converter, shape_of, type_of

__all__ = ["product"]


@converter("MatMul")
def matmul(node: ir.Node, inputs: Sequence[Any]) -> Any:
    """A product of matrices, or of stacks of them."""
    shapes = shape_of(node), shape_of(node, 1)
    return product(inputs[0], inputs[1], *shapes, extents(node.outputs[0]), type_of(node))


def product(
    left: Any,
    right: Any,
    shape: tuple[int, ...],
    other: tuple[int, ...],
    made: tuple[int, ...],
    dtype: str,
) -> Any:
    """A product of matrices: dense where the second is one matrix, else batched.

    The second matrix is handed over transposed, as TVM's and libraries' kernels take it. ``shape``
    and ``other`` are the extents of both, ``made`` those of the result.
    """
    if len(shape) == 1:
        left, shape = relay.reshape(left, (1, *shape)), (1, *shape)
    if len(other) == 1:
        right, other = relay.reshape(right, (*other, 1)), (*other, 1)
    if len(other) == 2:
        flat = left if len(shape) == 2 else relay.reshape(left, (-1, shape[-1]))
        found = relay.nn.dense(flat, relay.transpose(right), out_dtype=dtype)
    else:
        batch = np.broadcast_shapes(shape[:-2], other[:-2])
        left, right = (
            _three_axes(each, extent, batch) for each, extent in ((left, shape), (right, other))
        )
        found = relay.nn.batch_matmul(left, relay.transpose(right, (0, 2, 1)), out_dtype=dtype)
    full = (int(np.prod(shape[:-1])), other[-1])
    return found if len(other) == 2 and full == made else relay.reshape(found, made)


def _three_axes(value: Any, shape: tuple[int, ...], batch: tuple[int, ...]) -> Any:
    """A stack of matrices with one axis for the whole batch."""
    wanted = (*batch, *shape[-2:])
    if shape != wanted:
        value = relay.broadcast_to(value, wanted)
    return value if len(wanted) == 3 else relay.reshape(value, (-1, *shape[-2:]))
