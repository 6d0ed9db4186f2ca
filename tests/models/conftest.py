"""An independent numpy forward pass, and a way to run a network through TVM."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tvm

from tests.stock import stock_outputs


@dataclass(frozen=True)
class NumpyLayers:
    """Layers on float64 NCHW arrays; weights are looked up by unit name."""

    params: dict[str, np.ndarray]

    def conv(self, name, value, stride=1, groups=1, padding=None):
        """Convolution and bias; ``padding`` of None keeps the size at stride 1."""
        weight = self.params[f"{name}.weight"].astype(np.float64)
        bias = self.params[f"{name}.bias"].astype(np.float64)
        kernel = weight.shape[2:]
        pads = tuple(extent // 2 for extent in kernel) if padding is None else (padding, padding)
        windows = _windows(value, kernel, stride, pads, fill=0.0)
        inputs, outputs = value.shape[1] // groups, weight.shape[0] // groups
        parts = [
            np.einsum(
                "nchwij,ocij->nohw",
                windows[:, group * inputs : (group + 1) * inputs],
                weight[group * outputs : (group + 1) * outputs],
                optimize=True,
            )
            for group in range(groups)
        ]
        return np.concatenate(parts, axis=1) + bias[:, None, None]

    def conv_relu(self, name, value, **options):
        return self.relu(self.conv(name, value, **options))

    def relu_conv(self, name, value, stride=1):
        return self.conv(name, self.relu(value), stride=stride)

    def relu_sep_conv(self, name, value, stride=1):
        value = self.relu(value)
        value = self.conv(f"{name}.depthwise", value, stride=stride, groups=value.shape[1])
        return self.conv(f"{name}.pointwise", value)

    def relu(self, value):
        return np.maximum(value, 0)

    def max_pool(self, value, stride=2, padding=0):
        return _windows(value, (3, 3), stride, (padding, padding), fill=-np.inf).max(axis=(4, 5))

    def avg_pool(self, value, stride=1):
        """The average counts the zeros of the padding."""
        return _windows(value, (3, 3), stride, (1, 1), fill=0.0).mean(axis=(4, 5))

    def global_average(self, value):
        return value.mean(axis=(2, 3), keepdims=True)

    def concat(self, *values):
        return np.concatenate(values, axis=1)


def _windows(value, kernel, stride, pads, fill):
    padded = np.pad(
        value, ((0, 0), (0, 0), (pads[0], pads[0]), (pads[1], pads[1])), constant_values=fill
    )
    views = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(2, 3))
    return views[:, :, ::stride, ::stride]


@dataclass(frozen=True)
class Comparison:
    """Runs a network through relay.build and through numpy on the same image."""

    reference_build: Callable[..., Any]

    def __call__(self, network, forward: Callable[[NumpyLayers, np.ndarray], np.ndarray]) -> None:
        module, params = network
        arrays = {name: value.numpy() for name, value in params.items()}
        data = module["main"].params[0]
        image = _sample(data.checked_type)
        exact = image.astype(np.float64) if image.dtype.kind == "f" else image
        expected = forward(NumpyLayers(arrays), exact)
        library = self.reference_build(module, None, "llvm -opt-level=0", opt_level=0)
        actual = stock_outputs(library, **{data.name_hint: image}, **params)[0]
        assert np.std(expected) > 1e-4
        # What cancels out is off by a share of what was summed.
        least = 1e-5 * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=least)


def _sample(kind: tvm.ir.TensorType) -> np.ndarray:
    """A wave, or numbers in a fixed order where the input holds integers."""
    shape = tuple(int(extent) for extent in kind.shape)
    steps = np.arange(math.prod(shape))
    if kind.dtype.startswith("int"):
        return (steps * 7919 % 997).astype(kind.dtype).reshape(shape)
    return np.sin(steps.astype(kind.dtype) * 0.7).reshape(shape)


@pytest.fixture
def compare_with_numpy(reference_build: Callable[..., Any]) -> Comparison:
    return Comparison(reference_build)
