from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, topi
from tvm.script import ir as I
from tvm.script import tirx as T

from tests.relax.networks import TARGET
from tvm_ios.relax.schedules.windows.sliding import sliding
from tvm_ios.relax.target import resolve_target


@I.ir_module
class Kernels:
    @T.prim_func(s_tir=True)
    def before(
        a: T.Buffer((1, 6, 2, 4), "float32"),
        w: T.Buffer((2, 2, 1, 4), "float32"),
        c: T.Buffer((1, 5, 2, 4), "float32"),
    ):
        padded = T.sblock_alloc_buffer((1, 6, 3, 4))
        total = T.sblock_alloc_buffer((1, 5, 2, 4))
        for n, y, x, o in T.grid(1, 6, 3, 4):
            with T.sblock("padded"):
                vn, vy, vx, vo = T.axis.remap("SSSS", [n, y, x, o])
                padded[vn, vy, vx, vo] = T.if_then_else(
                    vx >= 1, a[vn, vy, vx - 1, vo], T.float32(0)
                )
        for n, y, x, o, dy, dx in T.grid(1, 5, 2, 4, 2, 2):
            with T.sblock("total"):
                vn, vy, vx, vo = T.axis.remap("SSSS", [n, y, x, o])
                vdy, vdx = T.axis.remap("RR", [dy, dx])
                with T.init():
                    total[vn, vy, vx, vo] = T.float32(0)
                total[vn, vy, vx, vo] = (
                    total[vn, vy, vx, vo] + padded[vn, vy + vdy, vx + vdx, vo] * w[vdy, vdx, 0, vo]
                )
        for n, y, x, o in T.grid(1, 5, 2, 4):
            with T.sblock("relu"):
                vn, vy, vx, vo = T.axis.remap("SSSS", [n, y, x, o])
                c[vn, vy, vx, vo] = T.max(total[vn, vy, vx, vo], T.float32(0))

    @T.prim_func(s_tir=True)
    def expected(
        a: T.Buffer((1, 6, 2, 4), "float32"),
        w: T.Buffer((2, 2, 1, 4), "float32"),
        c: T.Buffer((1, 5, 2, 4), "float32"),
    ):
        with T.sblock("root"):
            T.reads()
            T.writes()
            for row, _, tile, chunk in T.grid(5, 1, 1, 1):
                left = T.alloc_buffer((4,), layout=None)
                right = T.alloc_buffer((4,), layout=None)
                for lane in T.vectorized(4):
                    left[lane] = T.float32(0)
                for lane in T.vectorized(4):
                    right[lane] = T.float32(0)
                for tap in range(2):
                    for lane in T.vectorized(4):
                        right[lane] = (
                            right[lane]
                            + a[0, row + tap, tile * 2, chunk * 4 + lane]
                            * w[tap, 0, 0, chunk * 4 + lane]
                        )
                    for lane in T.vectorized(4):
                        left[lane] = (
                            left[lane]
                            + a[0, row + tap, tile * 2, chunk * 4 + lane]
                            * w[tap, 1, 0, chunk * 4 + lane]
                        )
                    for lane in T.vectorized(4):
                        right[lane] = (
                            right[lane]
                            + a[0, row + tap, tile * 2 + 1, chunk * 4 + lane]
                            * w[tap, 1, 0, chunk * 4 + lane]
                        )
                for lane in T.vectorized(4):
                    c[0, row, tile * 2, chunk * 4 + lane] = T.max(left[lane], T.float32(0))
                for lane in T.vectorized(4):
                    c[0, row, tile * 2 + 1, chunk * 4 + lane] = T.max(right[lane], T.float32(0))


def _simplified(kernel):
    module = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    return tvm.tirx.transform.StmtSimplify()(module)["main"]


def test_tiles_leave_out_what_is_padding():
    after = sliding(Kernels["before"], 4)
    tvm.ir.assert_structural_equal(
        _simplified(after), _simplified(Kernels["expected"]), map_free_vars=True
    )


def _image(layout, channels, height, width):
    if layout == "NHWC":
        return te.placeholder((2, height, width, channels), name="a")
    if layout == "NCHW":
        return te.placeholder((2, channels, height, width), name="a")
    return te.placeholder((2, channels // 8, height, width, 8), name="a")


def _depthwise(layout, channels, size, kernel, stride, dilation, padding):
    a = _image(layout, channels, *size)
    top, left, bottom, right = padding
    first = {"NHWC": (0,), "NCHW": (0, 0), "blocks": (0, 0)}[layout]
    last = () if layout == "NCHW" else (0,)
    padded = topi.nn.pad(a, (*first, top, left, *last), (*first, bottom, right, *last))
    shape = {
        "NHWC": (*kernel, channels),
        "NCHW": (channels, *kernel),
        "blocks": (channels // 8, *kernel, 8),
    }
    w = te.placeholder(shape[layout], name="w")
    at = len(first)
    rows, columns = (
        (int(padded.shape[at + n]) - dilation * (kernel[n] - 1) - 1) // stride + 1 for n in (0, 1)
    )
    r, s = (te.reduce_axis((0, extent)) for extent in kernel)

    def summed(*places):
        outer, (y, x), lane = places[:at], places[at : at + 2], places[at + 2 :]
        value = padded[(*outer, y * stride + r * dilation, x * stride + s * dilation, *lane)]
        return te.sum(value * w[(*outer[1:], r, s, *lane)], axis=[r, s])

    extents = (*a.shape[:at], rows, columns, *a.shape[at + 2 :])
    total = te.compute(extents, summed, "total")
    return te.create_prim_func([a, w, topi.clip(total, -0.5, 6)])


def _pool(kind, layout, channels, size, kernel, stride, dilation, padding):
    a = _image(layout, channels, *size)
    made = topi.nn.pool2d(
        a,
        kernel,
        (stride, stride),
        (dilation, dilation),
        padding,
        kind,
        layout="NCHW8c" if layout == "blocks" else layout,
        count_include_pad=False,
    )
    return te.create_prim_func([a, topi.add(made, made)])


def _dense(layout, channels, size, kernel, stride, dilation, padding):
    nhwc = layout == "NHWC"
    a = te.placeholder((1, *size, 3) if nhwc else (1, 3, *size), name="a")
    w = te.placeholder((*kernel, 3, channels) if nhwc else (channels, 3, *kernel), name="w")
    b = te.placeholder((1, 1, 1, channels) if nhwc else (1, channels, 1, 1), name="b")
    convolution = topi.nn.conv2d_nhwc if nhwc else topi.nn.conv2d_nchw
    made = convolution(a, w, stride, list(padding), dilation)
    return te.create_prim_func([a, w, b, topi.sigmoid(topi.add(made, b))])


KINDS = {
    "depthwise": _depthwise,
    "max": lambda *args: _pool("max", *args),
    "avg": lambda *args: _pool("avg", *args),
    "dense": _dense,
}


def _random_window(layout, seed):
    """Kernel of a window whose kernel lies within the image."""
    drawn = np.random.default_rng(seed)
    kind = list(KINDS)[seed % len(KINDS)]
    kernel = tuple(int(n) for n in drawn.integers(1, 6, 2))
    if kernel[1] == 1:
        kernel = (kernel[0], 2)
    dilation, stride = (int(n) for n in drawn.integers(1, 4, 2))
    # Vectors along rows are of every second element at most, and rows have four.
    stride, least = (min(stride, 2), 8) if layout == "NCHW" else (stride, 2)
    size = tuple(
        int(n) + dilation * (extent - 1)
        for n, extent in zip(drawn.integers(least, 34, 2), kernel, strict=True)
    )
    # A pool divides by the elements within, of which there has to be one.
    most = [min(extent * dilation, 5) for extent in kernel] * 2
    padding = tuple(int(drawn.integers(0, max(1, (each + 1) // 2))) for each in most)
    channels = int(drawn.choice([8, 16, 24, 40] if layout == "blocks" else [4, 6, 13, 24, 37]))
    return KINDS[kind](layout, channels, size, kernel, stride, dilation, padding)


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=[] if n < 6 else pytest.mark.full) for n in range(32)]
)
@pytest.mark.parametrize("layout", ["NHWC", "blocks", "NCHW"])
@pytest.mark.parametrize("lanes", [4, 16])
def test_random_windows_have_the_bits_of_tvms_loops(layout, seed, lanes):
    if layout == "blocks" and list(KINDS)[seed % len(KINDS)] == "dense":
        layout = "NHWC"
    _assert_equal_bits(_random_window(layout, seed), lanes)


def test_weights_may_end_in_one_multiplier():
    a, w = te.placeholder((1, 9, 9, 24), name="a"), te.placeholder((3, 3, 24, 1), name="w")
    made = topi.nn.depthwise_conv2d_nhwc(a, w, 1, 1, 1)
    _assert_equal_bits(te.create_prim_func([a, w, made]), 8)


def _assert_equal_bits(kernel, lanes):
    made = sliding(kernel, lanes)
    assert made is not None
    drawn = np.random.default_rng(0)
    values = [
        drawn.standard_normal(tuple(map(int, each.ty.shape)), "float32") for each in kernel.params
    ]
    results = []
    for each in (kernel, made):
        tensors = [tvm.runtime.tensor(value) for value in values]
        # The target has no instruction that multiplies and adds with one rounding.
        module = tvm.IRModule({"main": each.with_attr("global_symbol", "main")})
        tvm.tirx.build(module, target=resolve_target(TARGET))["main"](*tensors)
        results.append(tensors[-1].numpy())
    np.testing.assert_array_equal(*results)


def _kernel(shape, window):
    a = te.placeholder(shape, name="a")
    return te.create_prim_func([a, window(a)])


OTHERS = {
    "few columns": _kernel(
        (1, 8, 9, 3), lambda a: topi.nn.pool2d(a, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), "max")
    ),
    "every third column": _kernel(
        (1, 8, 9, 21), lambda a: topi.nn.pool2d(a, (3, 3), (3, 3), (1, 1), (0, 0, 0, 0), "max")
    ),
    "few channels": _kernel(
        (1, 9, 9, 3),
        lambda a: topi.nn.pool2d(a, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), "max", layout="NHWC"),
    ),
    "volumes": _kernel(
        (1, 9, 9, 9, 8),
        lambda a: topi.nn.pool3d(a, (3,) * 3, (1,) * 3, (1,) * 3, (1,) * 6, "max", layout="NDHWC"),
    ),
    "no window": _kernel((1, 9, 9, 8), lambda a: topi.sum(a, [1, 2])),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_kernels_are_none(name):
    assert sliding(OTHERS[name], 8) is None


def test_padding_with_other_numbers_is_added():
    a, w = te.placeholder((1, 9, 9, 8), name="a"), te.placeholder((3, 3, 8), name="w")
    padded = topi.nn.pad(a, (0, 1, 1, 0), (0, 1, 1, 0), pad_value=2.0)
    r, s = te.reduce_axis((0, 3)), te.reduce_axis((0, 3))
    total = te.compute(
        (1, 9, 9, 8),
        lambda n, y, x, c: te.sum(padded[n, y + r, x + s, c] * w[r, s, c], axis=[r, s]),
    )
    assert sliding(te.create_prim_func([a, w, total]), 8) is None
