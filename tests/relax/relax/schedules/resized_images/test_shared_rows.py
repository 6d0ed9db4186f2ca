from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, topi

from tests.relax.relax.schedules.kernels import ran
from tvm_ios.relax.schedules.resized_images.shared_rows import with_shared_rows
from tvm_ios.support.exact_bits import exact_bits

SIZES = {
    (14, 14): (28, 28),
    (5, 7): (17, 15),
    (9, 6): (19, 80),
    (2, 40): (70, 9),
    (6, 8): (7, 9),
    (3, 5): (9, 3),
}


def _kernel(method, layout, size, larger, mode="half_pixel"):
    x = te.placeholder(_shape(layout, size), name="x")
    return te.create_prim_func([x, _resized(x, method, layout, larger, mode)])


def _resized(x, method, layout, larger, mode="half_pixel"):
    return topi.image.resize2d(
        x, [0.0] * 4, larger, layout, method, coordinate_transformation_mode=mode
    )


def _shape(layout, size):
    return (2, 3, *size) if layout == "NCHW" else (2, *size, 20)


def _drawn(*shape):
    return np.random.default_rng(0).standard_normal(shape, "float32")


def _cases():
    """Each mode with each size, layout and method; ``make test`` has a third, each mode of all."""
    modes = ["half_pixel", "align_corners", "asymmetric"]
    others = list(product(["linear", "cubic"], ["NCHW", "NHWC"], SIZES))
    for number, case in enumerate(others):
        for turn, mode in enumerate(modes):
            marks = [] if turn == number % len(modes) else pytest.mark.full
            yield pytest.param(*case, mode, marks=marks)


@pytest.mark.parametrize(("method", "layout", "size", "mode"), [*_cases()])
def test_resized_images_are_those_of_stock_loops(method, layout, size, mode):
    kernel = _kernel(method, layout, size, SIZES[size], mode)
    x, like = _drawn(*_shape(layout, size)), np.zeros(_shape(layout, SIZES[size]), "float32")
    made = with_shared_rows(kernel, 16)
    np.testing.assert_allclose(
        ran(made, x, like=like), ran(kernel, x, like=like), rtol=1e-5, atol=1e-5
    )


def test_images_of_one_channel_are_resized_in_both_layouts():
    x = te.placeholder((1, 9, 11, 1), name="x")
    kernel = te.create_prim_func([x, _resized(x, "linear", "NHWC", (20, 16))])
    value, like = _drawn(1, 9, 11, 1), np.zeros((1, 20, 16, 1), "float32")
    found = ran(with_shared_rows(kernel, 16), value, like=like)
    np.testing.assert_allclose(found, ran(kernel, value, like=like), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lanes", [4, 8])
def test_what_follows_is_computed_with_the_rows(lanes):
    shape = (1, 4, 12, 14)
    x, bias, added = (
        te.placeholder(each, name=name)
        for name, each in (("x", (1, 4, 6, 7)), ("bias", (4, 1, 1)), ("added", shape))
    )
    made = topi.nn.relu(topi.add(topi.add(_resized(x, "linear", "NCHW", shape[2:]), bias), added))
    kernel = te.create_prim_func([x, bias, added, made])
    values, like = [_drawn(1, 4, 6, 7), _drawn(4, 1, 1), _drawn(*shape)], np.zeros(shape, "float32")
    found = ran(with_shared_rows(kernel, lanes), *values, like=like)
    np.testing.assert_allclose(found, ran(kernel, *values, like=like), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "larger"), [("linear", (14, 14)), ("cubic", (4, 4)), ("nearest_neighbor", (56, 56))]
)
def test_images_whose_rows_share_nothing_are_others(method, larger):
    assert with_shared_rows(_kernel(method, "NCHW", (28, 28), larger), 8) is None


def test_rows_that_a_condition_keeps_out_are_not_read():
    x = te.placeholder((4, 8), name="x")

    def row(i, j):
        at = tvm.tirx.floor(i.astype("float32") * 0.5).astype("int32") - 1
        return x[at, j] + x[at, 7 - j]

    def made(i, j):
        both = row(i, j) + row(i + 1, j)
        return tvm.tirx.if_then_else(tvm.tirx.all(i >= 2, i < 9), both, 0.0)

    assert with_shared_rows(te.create_prim_func([x, te.compute((12, 8), made)]), 8) is None
    inside = te.compute((6, 8), lambda i, j: row(i + 2, j) + row(i + 3, j))
    assert with_shared_rows(te.create_prim_func([x, inside]), 8) is not None


def test_exact_bits_are_left_to_tvm():
    with exact_bits(True):
        assert with_shared_rows(_kernel("linear", "NCHW", (8, 8), (16, 16)), 8) is None


@pytest.mark.parametrize(
    ("layout", "size", "rows"), [("NCHW", (28, 28), 16), ("NHWC", (40, 40), 2)]
)
def test_rings_have_rows_for_a_group_if_these_are_few_elements(layout, size, rows):
    kernel = with_shared_rows(_kernel("linear", layout, size, tuple(2 * n for n in size)), 8)
    found = []
    tvm_ffi.structural_walk(kernel.body, (tvm.tirx.AllocBuffer, found.append))
    (ring,) = [each.buffer for each in found if each.buffer.name == "ring"]
    assert int(ring.shape[0]) == rows
