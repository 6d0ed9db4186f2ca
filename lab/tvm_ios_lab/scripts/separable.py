"""Separable convolutions row by row: ``TVM_NUM_THREADS=1 python -m tvm_ios_lab.scripts.separable``.

A depthwise convolution of 3x3 by our loops, and a pointwise one behind it by oneDNN, on one lane:
each as a whole, and both by bands of rows, whose depthwise result stays in the nearest caches. Both
ways take turns. Images have half of the rows, as each of two lanes computes. Rows of zeros above
and below are given, so that all bands are alike. Least times go to ``lab/results/separable.txt``.
"""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from ctypes import Structure, c_int32, c_int64, c_void_p
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_ios.core.fused_function import AttributeValue, FusedFunction, PrimitiveCall, TensorType
from tvm_ios.host import host_target
from tvm_ios.kernels import LoweredKernel
from tvm_ios.kernels.vector_math import with_arithmetic
from tvm_ios.relay.context import tvm_pipeline
from tvm_ios.relay.grouped import grouped_kernel
from tvm_ios.runtime.base.tvm_abi import TvmFunction
from tvm_ios.runtime.libraries.onednn.device import OnednnProcessor
from tvm_ios.runtime.libraries.onednn.matching.matched_call import match_call
from tvm_ios.runtime.libraries.protocol import LibraryLane
from tvm_ios.support.c_compiler import compile_shared
from tvm_ios_lab.places import RESULTS

TARGET = tvm.target.Target(host_target())
LANE = LibraryLane(
    take_workspace=TvmFunction.TAKE_WORKSPACE.address,
    give_workspace=TvmFunction.GIVE_WORKSPACE.address,
)
TENSOR, ROUNDS = 7, 300
PAIRS = [
    (56, 112, 32, 64),
    (28, 56, 128, 128),
    (28, 56, 144, 24),
    (14, 28, 192, 32),
    (14, 28, 256, 256),
    (7, 14, 384, 64),
    (7, 14, 512, 512),
    (7, 14, 576, 96),
]
"""Rows, columns, channels and output channels: of MobileNet V1 and V2."""


class Step(Structure):
    """Call of a kernel, as C has it."""

    _fields_ = [
        ("kernel", c_void_p),
        ("values", c_void_p),
        ("codes", c_void_p),
        ("count", c_int64),
        ("resource", c_void_p),
    ]


class Bench:
    """Kernels of this process and the calls made of them; all lives as long as this."""

    def __init__(self, undo: ExitStack) -> None:
        self._undo = undo
        self._onednn = OnednnProcessor(lanes=1)
        undo.callback(self._onednn.close)
        self._alive: list[Any] = []

    def depthwise(self, rows: int, columns: int, channels: int) -> tuple[int, int]:
        """Kernel of so many rows of the result, and its resource."""
        shape = (1, rows + 2, columns, channels)
        value = relay.nn.conv2d(
            relay.var("x", shape=shape),
            relay.var("w", shape=(3, 3, channels, 1)),
            padding=(0, 1, 0, 1),
            groups=channels,
            channels=channels,
            kernel_size=(3, 3),
            data_layout="NHWC",
            kernel_layout="HWOI",
        )
        function = relay.Function(relay.analysis.free_vars(value), relay.nn.relu(value))
        typed = relay.transform.InferType()(tvm.IRModule.from_expr(function))["main"]
        with tvm_pipeline():
            code = grouped_kernel(typed, TARGET)
            assert code is not None, "our loops suit depthwise convolutions of 16 channels and more"
            kernel = LoweredKernel("depthwise", with_arithmetic(code), "0")
            library = tvm.build(kernel.module(), target=TARGET)
        path = Path(self._undo.enter_context(TemporaryDirectory())) / "kernel.so"
        library.export_library(str(path))
        loaded = ctypes.CDLL(str(path))
        self._alive += [tvm.runtime.load_module(str(path)), loaded]
        address = ctypes.cast(getattr(loaded, kernel.symbol), c_void_p).value or 0
        return address, 0

    def pointwise(self, rows: int, columns: int, channels: int, outputs: int) -> tuple[int, int]:
        """Call of oneDNN on so many rows, and its resource."""
        attributes: dict[str, AttributeValue] = {
            "strides": (1, 1),
            "padding": (0, 0, 0, 0),
            "dilation": (1, 1),
            "data_layout": "NHWC",
            "kernel_layout": "OIHW",
            "out_layout": "NHWC",
            "groups": 1,
        }
        call = PrimitiveCall(
            operator="nn.conv2d",
            operands=(0, 1),
            result=TensorType((1, rows, columns, outputs), "float32"),
            attributes=tuple(attributes.items()),
        )
        data = TensorType((1, rows, columns, channels), "float32")
        weight = TensorType((outputs, channels, 1, 1), "float32")
        function = FusedFunction(parameters=(data, weight), calls=(call,), constants=frozenset({1}))
        matched = match_call(function)
        assert matched is not None, "oneDNN computes convolutions"
        made = self._onednn.prepare(matched, (1, 1, 1), "pointwise", LANE, self._undo)
        return made.function, made.resource

    def step(self, kernel: tuple[int, int], *arrays: np.ndarray) -> Step:
        """Call of a kernel on arrays, the result last."""
        tensors = [tvm.nd.from_dlpack(array) for array in arrays]
        handles = [ctypes.cast(each.handle, c_void_p).value for each in tensors]
        values, codes = (c_void_p * len(handles))(*handles), (c_int32 * len(handles))()
        codes[:] = [TENSOR] * len(handles)
        self._alive += [arrays, tensors, values, codes]
        return Step(
            kernel[0], ctypes.addressof(values), ctypes.addressof(codes), len(handles), kernel[1]
        )


def aligned(*shape: int) -> np.ndarray:
    """Random float32 from a multiple of 64 bytes on."""
    size = int(np.prod(shape))
    room = np.random.default_rng(0).standard_normal(size + 16, "float32")
    begin = -room.ctypes.data % 64 // 4
    return room[begin : begin + size].reshape(shape)


def ways(
    bench: Bench, rows: int, columns: int, channels: int, outputs: int
) -> dict[int, tuple[list[Step], np.ndarray]]:
    """Steps and result by number of rows of a band; that of the whole image is the first."""
    data, kernel = aligned(1, rows + 2, columns, channels), aligned(3, 3, channels, 1)
    weight = aligned(outputs, channels, 1, 1)
    found = {}
    for band in (each for each in (rows, 14, 7, 4, 2, 1) if rows % each == 0):
        if band in found:
            continue
        depthwise = bench.depthwise(band, columns, channels)
        pointwise = bench.pointwise(band, columns, channels, outputs)
        middle, result = aligned(1, band, columns, channels), aligned(1, rows, columns, outputs)
        steps = []
        for begin in range(0, rows, band):
            inside = data[:, begin : begin + band + 2]
            steps.append(bench.step(depthwise, inside, kernel, middle))
            steps.append(bench.step(pointwise, middle, weight, result[:, begin : begin + band]))
        found[band] = (steps, result)
    return found


def measured(run: Callable[..., int], found: dict[int, tuple[list[Step], np.ndarray]]) -> str:
    """Line of microseconds of the whole, and of ratios of the whole to bands, by rows of a band."""
    arrays = {band: (Step * len(steps))(*steps) for band, (steps, _) in found.items()}
    times: dict[int, list[int]] = {band: [] for band in arrays}
    for _ in range(ROUNDS):
        for band, steps in arrays.items():
            times[band].append(run(steps, len(steps), 3))
    whole = next(iter(times))
    first = found[whole][1]
    for _, result in found.values():
        np.testing.assert_allclose(result, first, rtol=1e-4, atol=1e-3)
    cells = [f"{min(times[whole]) / 1000:8.1f}"]
    for band, each in times.items():
        if band != whole:
            ratio = statistics.median(a / b for a, b in zip(times[whole], each, strict=True))
            least = min(times[whole]) / min(each)
            cells.append(f"{band} rows {ratio:.2f} ({least:.2f})")
    return "  ".join(cells)


def main() -> None:
    """Time all pairs, and write the table."""
    code = ctypes.CDLL(str(compile_shared(Path(__file__).with_name("separable.c"), ("-O2",))))
    code.run_steps.restype = c_int64
    code.run_steps.argtypes = [c_void_p, c_int64, c_int64]
    lines = [
        "rows x columns, channels to outputs: us as a whole, then how many times as fast by bands"
    ]
    lines.append("are, as the median of ratios and (by least times)")
    for rows, columns, channels, outputs in PAIRS:
        with ExitStack() as undo:
            bench = Bench(undo)
            found = ways(bench, rows, columns, channels, outputs)
            text = measured(code.run_steps, found)
        lines.append(f"{rows:3}x{columns:<3} {channels:4} to {outputs:<4} {text}")
        print(lines[-1], flush=True)
    (RESULTS / "separable.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
