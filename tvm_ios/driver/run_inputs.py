"""Values for the inputs of a model: from a file, or made up. Free of TVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from tvm_ios.core.fused_function import TensorType
from tvm_ios.errors import OptionError
from tvm_ios.plan.data_type import numpy_dtype
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.base.sample_inputs import sample_inputs
from tvm_ios.support.named_arrays import named_arrays

__all__ = ["FillMode", "read_arrays", "require_fit", "run_inputs", "write_arrays"]


class FillMode(Enum):
    """Content of made-up inputs, by tvmc's names."""

    RANDOM = "random"
    """Standard normal numbers; zeros for integers, which are often places in a table."""
    ONES = "ones"
    ZEROS = "zeros"


def run_inputs(
    plan: ExecutionPlan,
    names: Sequence[str],
    given: Mapping[str, np.ndarray] | None,
    fill: FillMode = FillMode.RANDOM,
) -> dict[str, np.ndarray]:
    """Value of each input that is named, of those that are given; None makes them up."""
    tensors = {entry.name: plan.tensors[entry.tensor].type for entry in plan.inputs}
    wanted = {name: tensors[name] for name in names}
    if given is not None:
        require_fit(wanted, given)
        return {name: given[name] for name in names}
    if fill is FillMode.RANDOM:
        return sample_inputs(plan, set(tensors) - set(names))
    value = 1 if fill is FillMode.ONES else 0
    return {
        name: np.full(tensor.shape, value, numpy_dtype(tensor.dtype))
        for name, tensor in wanted.items()
    }


def require_fit(wanted: Mapping[str, TensorType], given: Mapping[str, np.ndarray]) -> None:
    """Refuse arrays that are not the inputs of a model, each of its shape and type."""
    for name in (*given, *wanted):
        if name not in wanted:
            reason = f"there is no input {name!r}"
        elif name not in given:
            reason = f"input {name!r} is missing"
        elif given[name].shape != wanted[name].shape:
            reason = f"input {name!r} has the shape {list(given[name].shape)}"
        elif given[name].dtype != numpy_dtype(wanted[name].dtype):
            reason = f"input {name!r} is {given[name].dtype}"
        else:
            continue
        takes = ", ".join(f"{n}: {t.dtype} {list(t.shape)}" for n, t in wanted.items())
        raise OptionError(f"{reason}; the model takes {takes or 'no inputs'}")


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Arrays by name in a file."""
    try:
        return named_arrays(path.read_bytes())
    except (OSError, ValueError) as error:
        raise OptionError(
            f"cannot read the inputs {path}: {error}; give a file that numpy.savez wrote"
        ) from error


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name into a file of exactly this name."""
    named: dict[str, Any] = dict(arrays)
    try:
        # Given a name in place of a file, numpy would append .npz to it.
        with path.open("wb") as file:
            np.savez(file, **named)
    except OSError as error:
        raise OptionError(
            f"cannot write the outputs {path}: {error.strerror}; name a file in a folder that is "
            "there and writable"
        ) from error
