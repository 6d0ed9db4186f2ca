"""Inputs that errors of bfloat16 are checked on, and the reader of models that calls are given."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from importlib import import_module
from typing import Any

import numpy as np
import tvm

from tvm_ios.core.fused_function import TensorType
from tvm_ios.cost.profile_key import digest_of
from tvm_ios.driver.run_inputs import require_fit
from tvm_ios.errors import OptionError
from tvm_ios.runtime.base.tvm_names import DIALECT, Array

__all__ = ["arrays_of", "digest_of_inputs", "given_here", "require_inputs"]


def given_here() -> Any:
    """Module that reads what calls are given, and names it, in the dialect of this TVM."""
    # Each imports a dialect that only one TVM has.
    return import_module(f"tvm_ios.driver.dialects.{DIALECT}_given")


def arrays_of(inputs: Mapping[str, Any] | None) -> dict[str, np.ndarray] | None:
    """Inputs as NumPy's arrays, whatever arrays they are; None stays None."""
    if inputs is None:
        return None
    if not isinstance(inputs, Mapping):
        raise OptionError(f"inputs is {inputs!r}; give arrays by name of the input")
    return {
        str(name): value.numpy() if isinstance(value, Array) else np.asarray(value)
        for name, value in inputs.items()
    }


def require_inputs(
    inputs: Mapping[str, np.ndarray], mod: tvm.IRModule, params: Mapping[str, Any] | None
) -> None:
    """Refuse inputs that are not those of a module: each of its shape and type, and no other.

    An OptionError lists what the model takes.
    """
    wanted: dict[str, TensorType] = given_here().input_types(mod, params or {})
    require_fit(wanted, inputs)


def digest_of_inputs(inputs: Mapping[str, np.ndarray] | None) -> str:
    """Digest of names, shapes, types and values; empty without inputs."""
    if inputs is None:
        return ""
    return digest_of(
        [
            [name, str(value.dtype), list(value.shape), sha256(value.tobytes()).hexdigest()]
            for name, value in sorted(inputs.items())
        ]
    )
