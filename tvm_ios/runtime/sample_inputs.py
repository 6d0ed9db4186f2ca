"""Input values for timed runs: uninitialised memory may hold denormals, which are slow."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tvm_ios.runtime.plan import ExecutionPlan

__all__ = ["sample_inputs"]


def sample_inputs(
    plan: ExecutionPlan, params: Collection[str], *, seed: int = 0
) -> dict[str, np.ndarray]:
    """Values for every input that is no parameter: standard normal, or zeros for integers.

    Parameters
    ----------
    plan
        Whose inputs to fill.
    params
        Names that are parameters.
    seed
        Equal seeds give equal values.
    """
    random = np.random.default_rng(seed)
    values = {}
    for entry in plan.inputs:
        if entry.name in params:
            continue
        tensor = plan.tensors[entry.tensor]
        if tensor.dtype.startswith("float"):
            value = random.standard_normal(tensor.shape).astype(tensor.dtype)
        else:
            value = np.zeros(tensor.shape, tensor.dtype)
        values[entry.name] = value
    return values
