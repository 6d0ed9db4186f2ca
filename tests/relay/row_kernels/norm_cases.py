"""Norms in Relay, with NumPy's answer in double precision, and a kernel to run beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relay

from tests import relay_modules
from tvm_ios.host import host_target
from tvm_ios.kernels.code_generation import KEEP_BUFFERS
from tvm_ios.relay.row_kernels.kernel import row_kernel

TARGET = tvm.target.Target(host_target())
EPSILON = 1e-5

Reference = Callable[..., np.ndarray]


def typed(result: relay.Expr) -> relay.Function:
    """Function of an expression's free variables, norms of TVM's written out."""
    module = relay.transform.SimplifyInference()(relay_modules.typed(result))
    return relay.transform.InferType()(module)["main"]


def run(function: relay.Function, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Result of a function's row kernel."""
    kernel = row_kernel(function, TARGET)
    assert kernel is not None
    named = tvm.IRModule({"kernel": kernel.with_attr("global_symbol", "kernel")})
    with tvm.transform.PassContext(opt_level=3, config={KEEP_BUFFERS: True}):
        library = tvm.build(named, target=f"{TARGET} -opt-level=0")  # LLVM need not optimise it
    type_ = function.ret_type
    result = tvm.nd.array(np.full([int(extent) for extent in type_.shape], 7, type_.dtype))
    library["kernel"](*map(tvm.nd.array, arrays), result)
    return np.asarray(result.numpy())


def inputs(function: relay.Function, seed: int = 0) -> list[np.ndarray]:
    """Random float32 arguments with a mean that is not zero."""
    return [3 * array + 1 for array in relay_modules.random_arrays(function, seed)]


def normed(x: np.ndarray, axes: int | tuple[int, ...]) -> np.ndarray:
    """Values less their mean, through their standard deviation."""
    off = x - x.mean(axes, keepdims=True)
    return np.asarray(off / np.sqrt((off * off).mean(axes, keepdims=True) + EPSILON))


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """Softmax along an axis."""
    raised = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(raised / raised.sum(axis, keepdims=True))
