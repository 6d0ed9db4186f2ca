"""Search of a convolution's fastest algorithm on the device: once, never in a run or a capture."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import c_float, c_int
from dataclasses import dataclass

from tvm_ios.plan.data_type import dtype_bytes
from tvm_ios.runtime.gpu.device import CudaDevice
from tvm_ios.runtime.gpu.driver import CudaCallError
from tvm_ios.runtime.libraries.cudnn.convolution import CudnnConvolution
from tvm_ios.runtime.libraries.cudnn.descriptors import Descriptors, math_of
from tvm_ios.runtime.libraries.cudnn.library import AlgorithmTime, Cudnn

__all__ = ["FUSES_BIAS_ALONE", "activates", "find_algorithm"]

FUSES_BIAS_ALONE = 1
"""``IMPLICIT_PRECOMP_GEMM``: the only algorithm that adds a bias without an activation."""
WORKSPACE_BYTES = 256 << 20
"""Limit of an algorithm's workspace in bytes: every stream has a workspace of its own."""
ROUNDS = 3
"""Timings of each algorithm, of which the best counts."""
MOST_RESULTS = 16
"""Room for results: eight algorithms with two kinds of arithmetic."""
PATTERNS = {"float32": 0x3DCCCCCD, "float16": 0x2E662E66}
"""0.1 as 32 bits, to fill tensors: a search on zeros or leftovers would draw another power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Buffers:
    x: int
    w: int
    y: int
    bias: int
    workspace: int


def activates(convolution: CudnnConvolution, algorithm: int) -> bool:
    """True if one call computes everything; False: a second call adds the bias, if there is any."""
    return convolution.relu or (convolution.bias and algorithm == FUSES_BIAS_ALONE)


def find_algorithm(
    library: Cudnn,
    device: CudaDevice,
    handle: int,
    convolution: CudnnConvolution,
    descriptors: Descriptors,
) -> tuple[int | None, bool]:
    """Fastest algorithm that computes a convolution, or None; and True if it was timed.

    cuDNN times the algorithms on memory of our own; the fastest one that then runs the whole call
    is taken. Without memory for that, cuDNN's heuristics choose, and the result is not worth
    keeping.
    """
    where = f"the search of an algorithm for {convolution.as_text()}"
    try:
        with _allocated(device, convolution) as buffers:
            results = _timed(library, handle, descriptors, buffers, where)
            for number in _ranked(results, convolution):
                if _runs(library, handle, convolution, descriptors, buffers, number):
                    device.synchronize(where)
                    return number, True
            return None, True
    except CudaCallError as error:
        if error.name != "CUDA_ERROR_OUT_OF_MEMORY":
            raise
    return _by_heuristics(library, device, handle, convolution, descriptors, where), False


def _timed(
    library: Cudnn, handle: int, descriptors: Descriptors, buffers: _Buffers, where: str
) -> list[AlgorithmTime]:
    results: list[AlgorithmTime] = []
    for _ in range(ROUNDS):
        found, count = (AlgorithmTime * MOST_RESULTS)(), c_int()
        library.call(
            "cudnnFindConvolutionForwardAlgorithmEx",
            handle,
            descriptors.x,
            buffers.x,
            descriptors.w,
            buffers.w,
            descriptors.convolution,
            descriptors.y,
            buffers.y,
            MOST_RESULTS,
            ctypes.byref(count),
            found,
            buffers.workspace,
            WORKSPACE_BYTES,
            where=where,
        )
        results += found[: count.value]
    return results


def _ranked(results: Sequence[AlgorithmTime], convolution: CudnnConvolution) -> list[int]:
    """Numbers of the algorithms that worked, the fastest first; equal times by number.

    A search also tries arithmetic that was not asked for, which must not decide.
    """
    usable = [result for result in results if result.status == 0 and result.deterministic]
    allowed = [result for result in usable if result.math == math_of(convolution)]
    best_ms: dict[int, float] = {}
    for result in allowed or usable:
        best_ms[result.number] = min(result.time_ms, best_ms.get(result.number, math.inf))
    return sorted(best_ms, key=lambda number: (best_ms[number], number))


def _runs(
    library: Cudnn,
    handle: int,
    convolution: CudnnConvolution,
    descriptors: Descriptors,
    buffers: _Buffers,
    number: int,
) -> bool:
    """True if cuDNN takes the call with bias and activation, which a search leaves out."""
    bias: tuple[int, ...]
    one, zero = ctypes.byref(c_float(1.0)), ctypes.byref(c_float(0.0))
    x, w, y = (descriptors.x, buffers.x), (descriptors.w, buffers.w), (descriptors.y, buffers.y)
    how = (descriptors.convolution, number, buffers.workspace, WORKSPACE_BYTES)
    if activates(convolution, number):
        name = "cudnnConvolutionBiasActivationForward"
        bias = (*y, descriptors.bias, buffers.bias, descriptors.activation)
    else:
        name, bias = "cudnnConvolutionForward", ()
    return library.status(name, handle, one, *x, *w, *how, zero, *bias, *y) == 0


def _by_heuristics(
    library: Cudnn,
    device: CudaDevice,
    handle: int,
    convolution: CudnnConvolution,
    descriptors: Descriptors,
    where: str,
) -> int | None:
    results, count = (AlgorithmTime * MOST_RESULTS)(), c_int()
    library.call(
        "cudnnGetConvolutionForwardAlgorithm_v7",
        handle,
        descriptors.x,
        descriptors.w,
        descriptors.convolution,
        descriptors.y,
        MOST_RESULTS,
        ctypes.byref(count),
        results,
        where=where,
    )
    free_bytes, _ = device.memory_bytes()
    fits = [
        result
        for result in results[: count.value]
        if result.status == 0
        and result.deterministic
        and result.math == math_of(convolution)
        and result.workspace_bytes <= min(free_bytes // 2, WORKSPACE_BYTES)
    ]
    return fits[0].number if fits else None


@contextmanager
def _allocated(device: CudaDevice, convolution: CudnnConvolution) -> Iterator[_Buffers]:
    """Memory for the tensors of a convolution and its workspace."""
    width = dtype_bytes(convolution.dtype)
    sizes = {
        "x": math.prod(convolution.input_shape) * width,
        "w": math.prod(convolution.weight_shape) * width,
        "y": math.prod(convolution.output_shape) * width,
        "bias": convolution.weight_shape[0] * width,
        "workspace": WORKSPACE_BYTES,
    }
    driver = device.driver
    with ExitStack() as undo:
        made: dict[str, int] = {}
        for name, size_bytes in sizes.items():
            words = (size_bytes + 3) // 4
            address = ctypes.c_uint64()
            driver.call("cuMemAlloc_v2", ctypes.byref(address), 4 * words)
            undo.callback(driver.call, "cuMemFree_v2", address.value)
            made[name] = address.value
            if name != "workspace":
                pattern = PATTERNS[convolution.dtype]
                driver.call("cuMemsetD32_v2", address.value, pattern, words)
        device.synchronize()  # the handle's stream does not wait for the default one
        yield _Buffers(**made)
