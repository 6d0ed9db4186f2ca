"""Reductions: as NumPy computes them in double precision, in whole vectors, on every axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay.schedules.kernel import TARGET, is_vectorised, lower, run
from tvm_ios.relay.context import tvm_pipeline
from tvm_ios.support.exact_bits import exact_bits


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(1, 1, size=shape).astype("float32")


CASES = (
    ((2, 5, 7, 7), (2, 3)),
    ((1, 30, 14, 14), (2, 3)),
    ((1, 3, 56, 57), (2, 3)),
    ((1, 2, 14, 14, 16), (2, 3)),
    ((1, 14, 14, 40), (1, 2)),
    ((5, 196, 190), (1,)),
    ((5, 19, 197), (2,)),
    ((4, 6, 7, 9), (0, 2, 3)),
    ((2, 96, 7, 7), (1,)),
    ((2, 9, 28, 28), (1,)),
    ((2, 9, 28, 1), (2,)),
    ((6, 1000), (1,)),
    ((1000, 6), (0,)),
    ((40, 33), (1,)),
    ((40, 31), (0,)),
    ((3, 5, 7), (0, 1, 2)),
    ((3, 5, 70), (0, 2)),
    ((40, 130), (0, 1)),
    ((1, 67, 131), (0, 1, 2)),
)


@pytest.mark.parametrize(
    ("shape", "axes", "keepdims"),
    [
        pytest.param(*case, keepdims, marks=pytest.mark.full if place % 2 == keepdims else ())
        for place, case in enumerate(CASES)
        for keepdims in (False, True)
    ],
)
def test_means_and_maxima_are_right(
    shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool
) -> None:
    data, value = random(*shape), relay.var("x", shape=shape)
    mean = run(lower(relay.mean(value, axes, keepdims=keepdims)), [data])
    expected = data.astype("float64").mean(axes, keepdims=keepdims)
    np.testing.assert_allclose(mean, expected, rtol=2e-6)
    most = run(lower(relay.max(value, axes, keepdims=keepdims)), [data])
    np.testing.assert_array_equal(most, data.max(axes, keepdims=keepdims))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1, 5, 7, 7), (2, 3)),
        ((1, 2, 14, 14, 16), (2, 3)),
        ((5, 19, 197), (2,)),
        ((5, 196, 190), (1,)),
        ((40, 130), (0, 1)),
    ],
)
def test_sums_are_gathered_in_vectors(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    assert is_vectorised(lower(relay.sum(relay.var("x", shape=shape), axes)))


@pytest.mark.parametrize(
    ("layout", "shape", "image"),
    [
        ("NCHW", (2, 5, 7, 9), (2, 3)),
        ("NHWC", (2, 7, 9, 24), (1, 2)),
        ("NCHW16c", (1, 2, 7, 9, 16), (2, 3)),
    ],
)
def test_images_are_pooled(layout: str, shape: tuple[int, ...], image: tuple[int, ...]) -> None:
    data, value = random(*shape), relay.var("x", shape=shape)
    average = lower(relay.nn.global_avg_pool2d(value, layout=layout))
    assert is_vectorised(average)
    expected = data.astype("float64").mean(image, keepdims=True)
    np.testing.assert_allclose(run(average, [data]), expected, rtol=2e-6)
    most = run(lower(relay.nn.global_max_pool2d(value, layout=layout)), [data])
    np.testing.assert_array_equal(most, data.max(image, keepdims=True))


@pytest.mark.parametrize("size", [(2, 2), (3, 5), (5, 4)])
def test_parts_of_images_are_pooled(size: tuple[int, int]) -> None:
    data = random(1, 4, 12, 15)
    value = relay.var("x", shape=data.shape)
    result = run(lower(relay.nn.adaptive_avg_pool2d(value, size)), [data])
    parts = [
        [(i * extent // count, -(-(i + 1) * extent // count)) for i in range(count)]
        for extent, count in zip((12, 15), size, strict=True)
    ]
    expected = [
        [data[..., top:bottom, left:right].mean((2, 3)) for left, right in parts[1]]
        for top, bottom in parts[0]
    ]
    np.testing.assert_allclose(result, np.moveaxis(expected, (0, 1), (2, 3)), rtol=2e-6)


def test_what_is_computed_before_is_part_of_the_sum() -> None:
    data, mean = random(6, 197), random(6, 1)
    away = relay.var("x", shape=data.shape) - relay.var("m", shape=mean.shape)
    kernel = lower(relay.mean(away * away, 1, keepdims=True))
    expected = ((data.astype("float64") - mean) ** 2).mean(1, keepdims=True)
    np.testing.assert_allclose(run(kernel, [data, mean]), expected, rtol=2e-6)


@pytest.mark.parametrize("reduce", [relay.sum, relay.mean, relay.prod])
def test_not_a_number_and_infinities_reach_the_result(reduce: Callable[..., relay.Expr]) -> None:
    data = random(4, 197)
    data[0, 17], data[1, 190], data[2, 0] = np.nan, np.inf, -np.inf
    result = run(lower(reduce(relay.var("x", shape=data.shape), 1)), [data])
    assert np.isnan(result[0])
    assert np.isinf(result[1:3]).all()
    assert np.isfinite(result[3])


@pytest.mark.parametrize("dtype", ["int32", "float16", "float64"])
def test_other_types_are_summed(dtype: str) -> None:
    data = np.arange(4 * 70).reshape(4, 70).astype(dtype) % 9
    result = run(lower(relay.sum(relay.var("x", shape=data.shape, dtype=dtype), 1)), [data])
    np.testing.assert_array_equal(result, data.sum(1))


def test_bfloat16_is_summed_as_by_stock_tvm() -> None:
    total = relay.sum(relay.var("x", shape=(4, 70), dtype="bfloat16"), 1)
    with tvm_pipeline():
        assert tvm.build(lower(total).module(), target=TARGET) is not None


def test_places_of_maxima_and_truth_of_rows_are_right() -> None:
    data = random(6, 100)
    places = run(lower(relay.argmax(relay.var("x", shape=data.shape), 1)), [data])
    np.testing.assert_array_equal(places, data.argmax(1))
    truth = data > -1
    value = relay.var("x", shape=data.shape, dtype="bool")
    np.testing.assert_array_equal(run(lower(relay.all(value, 1)), [truth]), truth.all(1))


def test_exact_bits_keep_the_order_of_stock_tvm() -> None:
    total = relay.sum(relay.var("x", shape=(4, 197)), 1)
    with exact_bits(True):
        assert not is_vectorised(lower(total))
