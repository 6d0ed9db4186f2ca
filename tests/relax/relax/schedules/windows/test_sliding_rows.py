"""Windows along rows of NCHW at the edges of images, beside what NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from numpy.lib.stride_tricks import sliding_window_view
from tvm import te, topi
from tvm.script import ir as I
from tvm.script import tirx as T

from tests.relax.relax.schedules.kernels import computed
from tvm_ios.relax.schedules.windows.sliding import sliding


@I.ir_module
class Kernels:
    @T.prim_func(s_tir=True)
    def before(
        a: T.Buffer((2, 8), "float32"),
        w: T.Buffer((2, 2), "float32"),
        c: T.Buffer((2, 4), "float32"),
    ):
        padded = T.sblock_alloc_buffer((2, 9))
        for n, x in T.grid(2, 9):
            with T.sblock("padded"):
                vn, vx = T.axis.remap("SS", [n, x])
                padded[vn, vx] = T.if_then_else(vx >= 1, a[vn, vx - 1], T.float32(0))
        for n, x, dx in T.grid(2, 4, 2):
            with T.sblock("total"):
                vn, vx, vdx = T.axis.remap("SSR", [n, x, dx])
                with T.init():
                    c[vn, vx] = T.float32(0)
                c[vn, vx] = c[vn, vx] + padded[vn, vx * 2 + vdx] * w[vn, vdx]

    @T.prim_func(s_tir=True)
    def expected(
        a: T.Buffer((2, 8), "float32"),
        w: T.Buffer((2, 2), "float32"),
        c: T.Buffer((2, 4), "float32"),
    ):
        with T.sblock("root"):
            T.reads()
            T.writes()
            for _task, _tile, _group in T.grid(1, 1, 1):
                above = T.alloc_buffer((4,), layout=None)
                below = T.alloc_buffer((4,), layout=None)
                for lane in T.vectorized(4):
                    above[lane] = T.float32(0)
                for lane in T.vectorized(4):
                    below[lane] = T.float32(0)
                left0 = T.alloc_buffer((4,), layout=None)
                left0[0:4] = T.call_llvm_pure_intrin(
                    "float32x4",
                    "llvm.masked.load",
                    T.address_of(a[0, -1]),
                    T.Shuffle(
                        [T.bool(False), T.bool(True), T.bool(True), T.bool(True)], [0, 1, 2, 3]
                    ),
                    T.Broadcast(T.float32(0), 4),
                )
                right0 = T.alloc_buffer((4,), layout=None)
                right0[0:4] = a[0, T.Ramp(3, 1, 4)]
                odd0 = T.alloc_buffer((4,), layout=None)
                odd0[0:4] = T.Shuffle(
                    [left0[T.Ramp(0, 1, 4)], right0[T.Ramp(0, 1, 4)]], [0, 2, 4, 6]
                )
                for lane in T.vectorized(4):
                    above[lane] = above[lane] + odd0[lane] * w[0, 0]
                even0 = T.alloc_buffer((4,), layout=None)
                even0[0:4] = T.Shuffle(
                    [left0[T.Ramp(0, 1, 4)], right0[T.Ramp(0, 1, 4)]], [1, 3, 5, 7]
                )
                for lane in T.vectorized(4):
                    above[lane] = above[lane] + even0[lane] * w[0, 1]
                left1 = T.alloc_buffer((4,), layout=None)
                left1[0:4] = T.call_llvm_pure_intrin(
                    "float32x4",
                    "llvm.masked.load",
                    T.address_of(a[1, -1]),
                    T.Shuffle(
                        [T.bool(False), T.bool(True), T.bool(True), T.bool(True)], [0, 1, 2, 3]
                    ),
                    T.Broadcast(T.float32(0), 4),
                )
                right1 = T.alloc_buffer((4,), layout=None)
                right1[0:4] = a[1, T.Ramp(3, 1, 4)]
                odd1 = T.alloc_buffer((4,), layout=None)
                odd1[0:4] = T.Shuffle(
                    [left1[T.Ramp(0, 1, 4)], right1[T.Ramp(0, 1, 4)]], [0, 2, 4, 6]
                )
                for lane in T.vectorized(4):
                    below[lane] = below[lane] + odd1[lane] * w[1, 0]
                even1 = T.alloc_buffer((4,), layout=None)
                even1[0:4] = T.Shuffle(
                    [left1[T.Ramp(0, 1, 4)], right1[T.Ramp(0, 1, 4)]], [1, 3, 5, 7]
                )
                for lane in T.vectorized(4):
                    below[lane] = below[lane] + even1[lane] * w[1, 1]
                for lane in T.vectorized(4):
                    c[0, lane] = above[lane]
                for lane in T.vectorized(4):
                    c[1, lane] = below[lane]


def test_vectors_lie_along_rows_and_taps_share_them():
    after, expected = (
        tvm.tirx.transform.StmtSimplify()(
            tvm.IRModule({"main": each.with_attr("global_symbol", "main")})
        )["main"]
        for each in (sliding(Kernels["before"], 4), Kernels["expected"])
    )
    tvm.ir.assert_structural_equal(after, expected, map_free_vars=True)


def _windows(image, kernel, stride, dilation, padding, around):
    """Windows of an image with numbers around it, the last two axes those of the kernel."""
    top, left, bottom, right = padding
    whole = np.pad(image, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=around)
    spans = [dilation * (n - 1) + 1 for n in kernel]
    views = sliding_window_view(whole, spans, (2, 3))
    return views[:, :, ::stride, ::stride, ::dilation, ::dilation]


@pytest.mark.parametrize(
    ("side", "kernel", "stride", "dilation", "padding"),
    [
        ((4, 4), (7, 7), 1, 1, (3, 3, 3, 3)),
        ((3, 37), (3, 3), 2, 1, (1, 1, 1, 1)),
        ((13, 29), (2, 3), 2, 1, (0, 0, 1, 1)),
        ((7, 7), (5, 5), 1, 1, (2, 2, 2, 2)),
        ((1, 53), (1, 5), 1, 2, (0, 1, 0, 4)),
        ((9, 48), (3, 3), 2, 2, (2, 0, 2, 3)),
        ((6, 6), (5, 5), 1, 1, (0, 4, 0, 0)),
    ],
)
def test_edges_are_those_of_numpy(side, kernel, stride, dilation, padding):
    a = te.placeholder((1, 3, *side), name="a")
    steps, dilations = (stride, stride), (dilation, dilation)
    image = np.random.default_rng(0).standard_normal((1, 3, *side), "float32")
    windows = _windows(image, kernel, stride, dilation, padding, -np.inf)
    like = windows.max((-2, -1))

    pool = te.create_prim_func([a, topi.nn.pool2d(a, kernel, steps, dilations, padding, "max")])
    assert sliding(pool, 8) is not None
    np.testing.assert_array_equal(computed(pool, image, like=like), like)

    w = te.placeholder((3, 1, *kernel), name="w")
    summed = topi.nn.depthwise_conv2d_nchw(a, w, steps, list(padding), dilations)
    weight = np.random.default_rng(1).standard_normal((3, 1, *kernel), "float32")
    windows = _windows(image, kernel, stride, dilation, padding, 0)
    like = np.einsum("ncyxij,cij->ncyx", windows, weight[:, 0])
    found = computed(te.create_prim_func([a, w, summed]), image, weight, like=like)
    np.testing.assert_allclose(found, like, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_stay_in_their_windows(stride, number):
    a, w = te.placeholder((1, 2, 9, 19), name="a"), te.placeholder((2, 1, 3, 3), name="w")
    image, weight = np.ones((1, 2, 9, 19), "float32"), np.ones((2, 1, 3, 3), "float32")
    image[0, 0, 4, [0, 9, 18]] = number
    around = (1, 1, 1, 1)
    like = _windows(image, (3, 3), stride, 1, around, 0).sum((-2, -1))
    summed = topi.nn.depthwise_conv2d_nchw(a, w, (stride, stride), list(around), (1, 1))
    found = computed(te.create_prim_func([a, w, summed]), image, weight, like=like)
    np.testing.assert_array_equal(found, like)

    largest = topi.nn.pool2d(a, (3, 3), (stride, stride), (1, 1), around, "max")
    like = _windows(image, (3, 3), stride, 1, around, -np.inf).max((-2, -1))
    found = computed(te.create_prim_func([a, largest]), image, like=like)
    # TVM keeps a NaN or not, as it lies in a window.
    known = ~np.isnan(like)
    np.testing.assert_array_equal(found[known], like[known])


@pytest.mark.parametrize("channels", [6, 17])
def test_rows_alone_have_tiles_of_channels(channels):
    a, w = te.placeholder((2, channels, 37), name="a"), te.placeholder((channels, 5), name="w")
    k = te.reduce_axis((0, 5))
    padded = topi.nn.pad(a, (0, 0, 2), (0, 0, 2))
    summed = te.compute(
        (2, channels, 37), lambda n, c, x: te.sum(padded[n, c, x + k] * w[c, k], axis=[k])
    )
    drawn = np.random.default_rng(0)
    image = drawn.standard_normal((2, channels, 37), "float32")
    weight = drawn.standard_normal((channels, 5), "float32")
    windows = _windows(image[:, :, None], (1, 5), 1, 1, (0, 2, 0, 2), 0)[:, :, 0, :, 0]
    like = np.einsum("ncxj,cj->ncx", windows, weight)
    kernel = te.create_prim_func([a, w, summed])
    assert sliding(kernel, 8) is not None
    np.testing.assert_allclose(
        computed(kernel, image, weight, like=like), like, rtol=1e-4, atol=1e-5
    )


@pytest.mark.slow(1)
@pytest.mark.parametrize("channels", [1, 2, 7, 17, 24])
def test_any_number_of_channels_is_a_number_of_tiles(channels):
    a, w = te.placeholder((1, 5, 6, 18), name="a"), te.placeholder((channels, 5, 3, 3), name="w")
    drawn = np.random.default_rng(0)
    image = drawn.standard_normal((1, 5, 6, 18), "float32")
    weight = drawn.standard_normal((channels, 5, 3, 3), "float32")
    positive = _windows(np.maximum(image, 0), (3, 3), 1, 1, (1, 1, 1, 1), 0)
    like = np.einsum("ncyxij,ocij->noyx", positive, weight)
    kernel = te.create_prim_func([a, w, topi.nn.conv2d_nchw(topi.nn.relu(a), w, 1, 1, 1)])
    assert sliding(kernel, 8) is not None
    found = computed(kernel, image, weight, like=like)
    np.testing.assert_allclose(found, like, rtol=1e-4, atol=1e-4)
