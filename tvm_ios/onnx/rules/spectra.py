"""Rules for Fourier transforms: products with matrices of sines and cosines, which are constant."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tvm_ios.errors import ModelError
from tvm_ios.onnx.axes import nonnegative, rank_of
from tvm_ios.onnx.builder import Builder
from tvm_ios.onnx.rule import Outputs, rule
from tvm_ios.onnx.values import dtype_of, extents, optional, require_constant, required

__all__ = [
    "fourier",
    "short_time_fourier",
]

_AXIS_BY_INPUT = 20
"""The opset from which the axis is an input."""
_MOST_NUMBERS = 2**24
"""Numbers of a matrix above which a transform is refused."""


@rule("DFT")
def fourier(node: ir.Node, op: Builder) -> Outputs:
    """A transform of one axis is a product of its real and imaginary parts with a matrix."""
    value = required(node)
    shape, axis = extents(value), _axis(node)
    given = require_constant(node, 1, "a length")
    inverse, one_sided = (node.attributes.get_int(n, 0) == 1 for n in ("inverse", "onesided"))
    if inverse and one_sided:
        raise ModelError("inverts a one-sided transform (inverse=1, onesided=1); give both sides")
    length = shape[axis] if given is None else int(given.item())
    dtype = dtype_of(value)
    matrix = _matrix(min(length, shape[axis]), shape[-1], length, inverse, one_sided)
    if length < shape[axis]:
        bounds = (op.const(np.array([each])) for each in (0, length, axis, 1))
        value = op.op("Slice", value, *bounds)
    order = [each for each in range(len(shape) - 1) if each != axis] + [axis, len(shape) - 1]
    rows = [shape[each] for each in order[:-2]]
    flat = op.reshape(op.transpose(value, order), [int(np.prod(rows)), len(matrix)])
    made = op.op("MatMul", flat, op.const(matrix.astype(dtype)))
    made = op.reshape(made, [*rows, matrix.shape[1] // 2, 2])
    return op.transpose(made, np.argsort(order).tolist())


def _axis(node: ir.Node) -> int:
    """The axis that is transformed, counted from the first one."""
    rank = rank_of(required(node))
    if (node.version or 0) < _AXIS_BY_INPUT:
        return nonnegative(node.attributes.get_int("axis", 1), rank)
    given = require_constant(node, 2, "an axis")
    return nonnegative(-2 if given is None else int(given.item()), rank)


def _matrix(count: int, parts: int, length: int, inverse: bool, one_sided: bool) -> np.ndarray:
    """Factors of a transform, a row for each part of a number, two columns for each frequency.

    ``count`` numbers are given, of 1 or 2 ``parts``; up to ``length`` others are zero.
    """
    frequencies = length // 2 + 1 if one_sided else length
    if count * parts * frequencies * 2 > _MOST_NUMBERS:
        raise ModelError(f"transforms {count} numbers at once; split them up before")
    turns = np.outer(np.arange(count), np.arange(frequencies)) % length / length
    angles = 2 * np.pi * turns * (1 if inverse else -1)
    cosines, sines = np.cos(angles), np.sin(angles)
    of_real = np.stack([cosines, sines], -1)
    of_imaginary = np.stack([-sines, cosines], -1)
    both = np.stack([of_real, of_imaginary][:parts], 1)
    return both.reshape(count * parts, frequencies * 2) / (length if inverse else 1)


@rule("STFT")
def short_time_fourier(node: ir.Node, op: Builder) -> Outputs:
    """Transforms of frames are a convolution along the signal, whose stride is the frame step."""
    signal, window = required(node), optional(node, 2)
    step = require_constant(node, 1, "a step of frames")
    given = require_constant(node, 3, "a length of frames")
    assert step is not None
    if given is None and window is None:
        raise ModelError("has neither a window nor a length of frames; give one of them")
    length = extents(window)[0] if given is None and window is not None else 0
    length = int(given.item()) if given is not None else length
    shape = extents(signal)
    batch, count = shape[:2]
    parts = shape[2] if len(shape) > 2 else 1
    one_sided = node.attributes.get_int("onesided", 1) == 1
    matrix = _matrix(length, parts, length, inverse=False, one_sided=one_sided)
    weights = matrix.reshape(length, parts, -1).transpose(2, 1, 0)
    kernel = op.const(np.ascontiguousarray(weights, dtype_of(signal)))
    if window is not None:
        kernel = op.op("Mul", kernel, window)
    channels = op.transpose(op.reshape(signal, [batch, count, parts]), (0, 2, 1))
    how = {"kernel_shape": [length], "strides": [int(step.item())], "pads": [0, 0]}
    made = op.op("Conv", channels, kernel, group=1, dilations=[1], **how)
    frames = (count - length) // int(step.item()) + 1
    bins = matrix.shape[1] // 2
    return op.transpose(op.reshape(made, [batch, bins, 2, frames]), (0, 3, 1, 2))
