"""Small kernels, and what they compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import te

from tests.relax.networks import TARGET
from tvm_ios.relax.schedules.in_force import scheduled
from tvm_ios.relax.target import resolve_target

__all__ = ["computed", "element_wise", "ran"]


def element_wise(function: Callable[[Any], Any], count: int) -> tvm.tirx.PrimFunc:
    """Kernel that computes a function of each of so many numbers."""
    x = te.placeholder((count,), "float32", "x")
    return te.create_prim_func([x, te.compute((count,), lambda at: function(x[at]), "y")])


def computed(kernel: tvm.tirx.PrimFunc, *values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Result of a kernel with loops of ours, an array like another one."""
    made = scheduled(kernel, resolve_target(TARGET))
    assert made is not None
    return ran(made, *values, like=like)


def ran(made: tvm.tirx.PrimFunc, *values: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Result of a kernel that has its loops, an array like another one."""
    module = tvm.IRModule({"main": made.with_attr("global_symbol", "main")})
    library = tvm.tirx.build(module, target=resolve_target(TARGET))
    result = tvm.runtime.tensor(np.zeros_like(like))
    library["main"](*map(tvm.runtime.tensor, values), result)
    return result.numpy()
