"""Input values for timed runs: uninitialised memory may hold denormals, which are slow."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from tvm_ios.plan.data_type import is_float, numpy_dtype
from tvm_ios.plan.plan import ExecutionPlan

__all__ = ["sample_inputs", "sample_tensor"]

MOST_DRAWN = 1 << 16
"""Values drawn for a tensor inside a network; a larger one repeats them."""


def sample_inputs(
    plan: ExecutionPlan, params: Collection[str], *, seed: int = 0
) -> dict[str, np.ndarray]:
    """Values for every input that is no parameter: standard normal, or zeros for integers."""
    random = np.random.default_rng(seed)
    values = {}
    for entry in plan.inputs:
        if entry.name in params:
            continue
        tensor = plan.tensors[entry.tensor]
        if tensor.dtype.startswith("float"):
            value = random.standard_normal(tensor.shape).astype(numpy_dtype(tensor.dtype))
        else:
            # An integer may be an index, and 0 is one that every tensor has.
            value = np.zeros(tensor.shape, numpy_dtype(tensor.dtype))
        values[entry.name] = value
    return values


def sample_tensor(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Values of a tensor inside a network: zeros, or floats that no few operators make denormal.

    Floats are multiples of 1/64 in [-1, 1]; NumPy lacks bfloat16, which is given by its bits.
    """
    if not is_float(dtype):
        return np.zeros(shape, numpy_dtype(dtype))
    drawn = random.integers(-64, 65, size=min(math.prod(shape), MOST_DRAWN)) / 64
    if dtype == "bfloat16":
        values = (drawn.astype("float32").view("uint32") >> 16).astype("uint16")
    else:
        values = drawn.astype(numpy_dtype(dtype))
    return np.resize(values, shape)
