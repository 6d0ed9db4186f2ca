"""Operators of real networks that Relax leaves to TVM where no operator library is there.

Each is a network of its own whose arrays fit the second cache. ``relax_loops`` times them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.core import polynomials
from tvm_ios.relax.target import host_target
from tvm_ios.search.baselines import sequential_schedule

__all__ = ["CASES", "KernelRace", "OneKernel", "kernel_race"]

OP = relax.op
_RANDOM = np.random.default_rng(0)


@dataclass(frozen=True, slots=True)
class OneKernel:
    """Network of one operator, or of a few that become one kernel."""

    compute: Callable[..., Any]
    """Function from the inputs to the result."""
    shapes: Sequence[tuple[int, ...]]
    """Shape of each input, float32."""
    flops: int = 0
    """Float32 operations that cannot be left out, a multiply-add two; 0 where bytes count more."""

    def module(self) -> tvm.IRModule:
        """The network, with inputs ``x0``, ``x1`` and so on."""
        builder = relax.BlockBuilder()
        inputs = [
            relax.Var(f"x{place}", relax.TensorType(shape, "float32"))
            for place, shape in enumerate(self.shapes)
        ]
        with builder.function("main", inputs):
            with builder.dataflow():
                result = builder.emit_output(builder.normalize(self.compute(*inputs)))
            builder.emit_func_output(result)
        return builder.get()

    def values(self) -> list[np.ndarray]:
        """Values for the inputs."""
        return [_RANDOM.standard_normal(shape, "float32") for shape in self.shapes]


def kernel_race(case: OneKernel, rounds: int) -> KernelRace:
    """Rounds of an operator on one core, by turns: stock TVM's loops in its machine, and ours."""
    module, values = case.module(), case.values()
    model = build_model(module, None, host_target())
    ours = lower_schedule(model, sequential_schedule(model.graph), lanes=1).executor()
    for place, value in enumerate(values):
        ours.set_input(f"x{place}", value)
    machine = relax.VirtualMachine(
        tvm.compile(relax.get_pipeline("zero")(module), target=host_target()), tvm.cpu()
    )
    tensors = [tvm.runtime.tensor(value) for value in values]
    stock, number = machine["main"], _runs(lambda: ours.time_ns(1))
    taken = KernelRace(sum(each.memory_bytes for each in model.graph.operators))
    for _ in range(rounds):
        taken.ours_ns.append(ours.time_ns(number) / number)
        begin = time.perf_counter_ns()
        for _ in range(max(1, number // 10)):
            stock(*tensors)
        taken.stock_ns.append((time.perf_counter_ns() - begin) / max(1, number // 10))
    return taken


def _runs(time_ns: Callable[[], int]) -> int:
    """Number of runs that take about half a millisecond."""
    return max(1, 500_000 // min(time_ns() for _ in range(10)))


@dataclass(frozen=True, slots=True)
class KernelRace:
    """Rounds of one operator."""

    size_bytes: int
    """Bytes of inputs, weights and results."""
    stock_ns: list[float] = field(default_factory=list)
    ours_ns: list[float] = field(default_factory=list)


def _weight(*shape: int) -> relax.Expr:
    return relax.const(_RANDOM.standard_normal(shape, "float32"))


def _norm(width: int) -> Callable[..., Any]:
    return lambda x: OP.nn.layer_norm(x, _weight(width), _weight(width), axes=[-1])


def _group_norm(channels: int, groups: int) -> Callable[..., Any]:
    weights = _weight(channels), _weight(channels)
    return lambda x: OP.nn.group_norm(x, *weights, groups, 1, [2, 3])


def _gelu(x: relax.Var) -> relax.Expr:
    return OP.nn.gelu(x)


def _hardswish(x: relax.Var) -> relax.Expr:
    three, six = relax.const(3.0, "float32"), relax.const(6.0, "float32")
    return OP.divide(OP.multiply(x, OP.clip(OP.add(x, three), 0, 6)), six)


def _turned(*axes: int) -> Callable[..., Any]:
    return lambda x: OP.permute_dims(x, axes)


def _depthwise(size: int, stride: int, layout: str, channels: int) -> Callable[..., Any]:
    nhwc = layout == "NHWC"
    shape = (size, size, channels, 1) if nhwc else (channels, 1, size, size)

    def compute(x: relax.Var) -> relax.Expr:
        return OP.nn.conv2d(
            x,
            _weight(*shape),
            strides=stride,
            padding=size // 2,
            groups=channels,
            data_layout=layout,
            kernel_layout="HWOI" if nhwc else "OIHW",
        )

    return compute


def _depthwise_cases() -> dict[str, OneKernel]:
    cases = {}
    for layout in ("NCHW", "NHWC"):
        for size, stride, channels, side in ((3, 1, 96, 28), (3, 2, 96, 28), (5, 1, 120, 28)):
            shape = (1, side, side, channels) if layout == "NHWC" else (1, channels, side, side)
            cases[f"depthwise {size}x{size}, stride {stride}, {layout}"] = OneKernel(
                _depthwise(size, stride, layout, channels),
                [shape],
                2 * channels * (side // stride) ** 2 * size**2,
            )
    return cases


def _first(data_layout: str, kernel_layout: str) -> Callable[..., Any]:
    shape = [{"H": 3, "W": 3, "I": 3, "O": 32}[axis] for axis in kernel_layout]
    layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    return lambda x: OP.nn.conv2d(x, _weight(*shape), strides=2, padding=1, **layouts)


def _resized(method: str, layout: str = "NCHW") -> Callable[..., Any]:
    mode = "asymmetric" if method == "nearest_neighbor" else "half_pixel"
    return lambda x: OP.image.resize2d(
        x, (56, 56), layout=layout, method=method, coordinate_transformation_mode=mode
    )


def _gathered(x: relax.Var) -> relax.Expr:
    rows = _RANDOM.integers(0, 200, 128, "int64")
    return OP.take(x, relax.const(rows), 0)


def _steps(each: int, *shape: int) -> int:
    """Operations in an array whose elements take so many steps, each as long as a multiply-add."""
    return 2 * each * math.prod(shape)


def _powers(coefficients: Sequence[float]) -> int:
    return len(coefficients) - 1


_EXP = _powers(polynomials.EXPM1) + 7
"""Steps of exp: to a power of two and its rest 3, square, rest, and to the power 2."""
_SMALL_EXP = _powers(polynomials.EXP) + 3
_SIGMOID = _EXP + 2
_TANH = _powers(polynomials.TANH) + 3 + _SMALL_EXP + 3
_ERF = _powers(polynomials.ERF_NEAR) + 2 + _powers(polynomials.ERF_FAR) + 1 + _SMALL_EXP + 1
"""Steps of erf: both polynomials, since no element takes a branch of its own."""

_BILINEAR = _steps(2, 32, 28, 56) + _steps(2, 32, 56, 56)
"""Operations of 32 images of 28 x 28 that get 56 x 56: along each row once, then between rows.

C by hand reaches 0.62 of this bound in NCHW on Zen 4, which reads rows and writes as many by turns.
"""

CASES: Mapping[str, OneKernel] = MappingProxyType(
    {
        "softmax, rows of 128": OneKernel(
            OP.nn.softmax, [(6, 128, 128)], _steps(_EXP + 4, 6, 128, 128)
        ),
        "layer norm, rows of 768": OneKernel(_norm(768), [(128, 768)], _steps(5, 128, 768)),
        "softmax, rows of 197": OneKernel(
            OP.nn.softmax, [(3, 197, 197)], _steps(_EXP + 4, 3, 197, 197)
        ),
        "softmax of channels, NCHW": OneKernel(
            lambda x: OP.nn.softmax(x, 1), [(1, 19, 56, 56)], _steps(_EXP + 4, 19, 56, 56)
        ),
        "instance norm, NCHW": OneKernel(
            _group_norm(32, 32), [(1, 32, 56, 56)], _steps(4, 32, 56, 56)
        ),
        "group norm, NCHW": OneKernel(_group_norm(64, 8), [(1, 64, 40, 40)], _steps(4, 64, 40, 40)),
        "GELU": OneKernel(_gelu, [(32, 3072)], _steps(_ERF + 3, 32, 3072)),
        "hardswish": OneKernel(_hardswish, [(1, 96, 28, 28)]),
        "sigmoid": OneKernel(OP.sigmoid, [(1, 96, 28, 28)], _steps(_SIGMOID, 96, 28, 28)),
        "tanh": OneKernel(OP.tanh, [(32, 3072)], _steps(_TANH, 32, 3072)),
        "add with ReLU": OneKernel(lambda x, y: OP.nn.relu(OP.add(x, y)), [(1, 96, 28, 28)] * 2),
        "bias of channels": OneKernel(
            lambda x, y: OP.nn.relu(OP.add(x, y)), [(1, 96, 28, 28), (1, 96, 1, 1)]
        ),
        "transpose of heads": OneKernel(_turned(0, 2, 1, 3), [(1, 128, 12, 64)]),
        "transpose of keys": OneKernel(_turned(0, 2, 3, 1), [(1, 128, 12, 64)]),
        "NCHW to NHWC": OneKernel(_turned(0, 2, 3, 1), [(1, 96, 28, 28)]),
        "NCHW to NHWC, 3 channels": OneKernel(_turned(0, 2, 3, 1), [(1, 3, 112, 112)]),
        "NHWC to NCHW": OneKernel(_turned(0, 3, 1, 2), [(1, 28, 28, 96)]),
        "max pool 3x3, stride 2": OneKernel(
            lambda x: OP.nn.max_pool2d(x, (3, 3), 2, 1), [(1, 64, 48, 48)]
        ),
        "average pool 2x2": OneKernel(lambda x: OP.nn.avg_pool2d(x, (2, 2), 2), [(1, 128, 28, 28)]),
        "max pool 3x3, stride 2, NHWC": OneKernel(
            lambda x: OP.nn.max_pool2d(x, (3, 3), 2, 1, layout="NHWC"), [(1, 48, 48, 64)]
        ),
        "average pool 2x2, NHWC": OneKernel(
            lambda x: OP.nn.avg_pool2d(x, (2, 2), 2, layout="NHWC"), [(1, 28, 28, 128)]
        ),
        "global average pool, NCHW": OneKernel(lambda x: OP.mean(x, [2, 3]), [(1, 1280, 7, 7)]),
        "global average pool, NHWC": OneKernel(lambda x: OP.mean(x, [1, 2]), [(1, 7, 7, 1280)]),
        "squeeze of 120 channels, NHWC": OneKernel(
            lambda x: OP.mean(x, [1, 2], keepdims=True), [(1, 28, 28, 120)]
        ),
        "product of one row": OneKernel(
            lambda x: OP.nn.relu(OP.matmul(x, _weight(480, 512))), [(1, 480)], 2 * 480 * 512
        ),
        "sum of rows": OneKernel(lambda x: OP.sum(x, [-1]), [(128, 1024)]),
        "argmax of rows": OneKernel(lambda x: OP.argmax(x, -1), [(128, 1000)]),
        **_depthwise_cases(),
        "first convolution 3x3": OneKernel(
            _first("NCHW", "OIHW"), [(1, 3, 112, 112)], 2 * 32 * 56 * 56 * 27
        ),
        "first convolution 3x3, NHWC": OneKernel(
            _first("NHWC", "HWIO"), [(1, 112, 112, 3)], 2 * 32 * 56 * 56 * 27
        ),
        "resize 2x, bilinear": OneKernel(_resized("linear"), [(1, 32, 28, 28)], _BILINEAR),
        "resize 2x, bilinear, NHWC": OneKernel(
            _resized("linear", "NHWC"), [(1, 28, 28, 32)], _BILINEAR
        ),
        "resize 2x, nearest": OneKernel(_resized("nearest_neighbor"), [(1, 32, 28, 28)]),
        "concat of channels, NHWC": OneKernel(
            lambda x, y: OP.nn.relu(OP.concat([x, y], 3)), [(1, 28, 28, 24), (1, 28, 28, 72)]
        ),
        "rows of an embedding": OneKernel(_gathered, [(200, 768)]),
    }
)
"""Operators by name."""
