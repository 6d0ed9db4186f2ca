"""What some operators compute, in NumPy: the definitions, not TVM's and not fast."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

__all__ = [
    "convolution",
    "erf",
    "normalized",
    "pooling",
    "resized",
    "softmax",
    "transposed_convolution",
]

erf = np.vectorize(math.erf, otypes=["float64"])


def softmax(data: np.ndarray, axis: int) -> np.ndarray:
    """Exponentials that sum to one."""
    powers = np.exp(data - data.max(axis=axis, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis=axis, keepdims=True)


def normalized(data: np.ndarray, axes: Sequence[int], epsilon: float) -> np.ndarray:
    """Mean 0 and variance 1 along axes."""
    mean, variance = (f(data, axis=tuple(axes), keepdims=True) for f in (np.mean, np.var))
    return (data - mean) / np.sqrt(variance + epsilon)


def _output(extent: int, kernel: int, stride: int, pads: int, dilation: int = 1) -> int:
    return (extent + pads - dilation * (kernel - 1) - 1) // stride + 1


def convolution(
    data: np.ndarray,
    weight: np.ndarray,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> np.ndarray:
    """NCHW with OIHW; padding is top, left, bottom, right."""
    top, left, bottom, right = padding
    batch, channels, *extents = data.shape
    outputs, _, *kernel = weight.shape
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    sizes = [
        _output(extents[i], kernel[i], strides[i], (top + bottom, left + right)[i], dilation[i])
        for i in range(2)
    ]
    source = padded.reshape(batch, groups, channels // groups, *padded.shape[2:])
    filters = weight.reshape(groups, outputs // groups, *weight.shape[1:])
    result = np.zeros((batch, groups, outputs // groups, *sizes))
    for place in itertools.product(*map(range, kernel)):
        rows, columns = (
            slice(
                place[i] * dilation[i],
                place[i] * dilation[i] + (sizes[i] - 1) * strides[i] + 1,
                strides[i],
            )
            for i in range(2)
        )
        seen = source[..., rows, columns]
        result += np.einsum("ngihw,goi->ngohw", seen, filters[..., place[0], place[1]])
    return result.reshape(batch, outputs, *sizes)


def transposed_convolution(
    data: np.ndarray,
    weight: np.ndarray,
    strides: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
) -> np.ndarray:
    """NCHW with IOHW: each element of the data is spread over the result."""
    top, left, bottom, right = padding
    batch, channels, height, width = data.shape
    _, outputs, *kernel = weight.shape
    extents = (height, width)
    full = [(extents[i] - 1) * strides[i] + kernel[i] + output_padding[i] for i in range(2)]
    source = data.reshape(batch, groups, channels // groups, height, width)
    filters = weight.reshape(groups, channels // groups, outputs, *kernel)
    result = np.zeros((batch, groups, outputs, *full))
    for y, x in itertools.product(*map(range, kernel)):
        rows = slice(y, y + (height - 1) * strides[0] + 1, strides[0])
        columns = slice(x, x + (width - 1) * strides[1] + 1, strides[1])
        result[..., rows, columns] += np.einsum("ngihw,gio->ngohw", source, filters[..., y, x])
    whole = result.reshape(batch, groups * outputs, *full)
    return whole[:, :, top : full[0] - bottom, left : full[1] - right]


def pooling(
    data: np.ndarray,
    reduce: Callable[[np.ndarray], float],
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    *,
    ceil: bool = False,
) -> np.ndarray:
    """NCHW; ``reduce`` sees a window without padding of each channel, flat in its last axis."""
    extents = data.shape[2:]
    pads = (padding[0], padding[1]), (padding[2], padding[3])
    sizes = []
    for i in range(2):
        free = extents[i] + pads[0][i] + pads[1][i] - kernel[i]
        sizes.append((-(-free // strides[i]) if ceil else free // strides[i]) + 1)
    result = np.zeros((*data.shape[:2], *sizes))
    for y, x in itertools.product(*map(range, sizes)):
        begin = [at * step - pad for at, step, pad in zip((y, x), strides, pads[0], strict=True)]
        rows, columns = (
            slice(max(begin[i], 0), min(begin[i] + kernel[i], extents[i])) for i in range(2)
        )
        window = data[:, :, rows, columns]
        result[:, :, y, x] = reduce(window.reshape(*window.shape[:2], -1))
    return result


def resized(data: np.ndarray, size: Sequence[int], method: str, transform: str) -> np.ndarray:
    """NCHW, one axis after the other."""
    for axis, extent in zip((2, 3), size, strict=True):
        data = _resized_axis(data, axis, extent, method, transform)
    return data


def _resized_axis(
    data: np.ndarray, axis: int, size: int, method: str, transform: str
) -> np.ndarray:
    extent = data.shape[axis]
    places = np.arange(size)
    if transform == "half_pixel":
        places = (places + 0.5) * extent / size - 0.5
    elif transform == "align_corners":
        places = places * (extent - 1) / max(size - 1, 1)
    else:
        places = places * extent / size
    if method == "nearest_neighbor":
        return data.take(np.clip(np.floor(places), 0, extent - 1).astype(int), axis)
    before = np.floor(places).astype(int)
    part = (places - before).reshape([-1 if i == axis else 1 for i in range(data.ndim)])
    first, second = (data.take(np.clip(before + i, 0, extent - 1), axis) for i in range(2))
    return first * (1 - part) + second * part
