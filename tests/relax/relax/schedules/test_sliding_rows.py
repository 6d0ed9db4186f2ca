"""Windows along rows of NCHW at the edges of images, beside what NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from tvm import te, topi

from tests.relax.relax.schedules.kernels import computed
from tvm_ios.relax.schedules.sliding import sliding


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
