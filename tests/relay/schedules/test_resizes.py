"""Resized images: right for all sizes, methods, layouts and types, and with what is fused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, tir

from tests.relay.schedules.kernel import lower, run
from tests.relay_graphs.arithmetic import resized
from tvm_ios.support.exact_bits import exact_bits

LINEAR = ("linear", "half_pixel")
NEAREST = ("nearest_neighbor", "asymmetric")


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def resize(
    data: np.ndarray, size: tuple[int, int], rule: tuple[str, str] = LINEAR, **named: Any
) -> relay.Expr:
    value = relay.var(f"x{data.shape[-1]}", shape=data.shape, dtype=str(data.dtype))
    method, transform = rule
    return relay.image.resize2d(
        value, size, method=method, coordinate_transformation_mode=transform, **named
    )


def assert_close(value: relay.Expr, arrays: list[np.ndarray], expected: np.ndarray) -> None:
    made = run(lower(value), arrays)
    assert made.dtype == value_dtype(value)
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5)


def value_dtype(value: relay.Expr) -> str:
    module = relay.transform.InferType()(tvm.IRModule.from_expr(value))
    return str(module["main"].body.checked_type.dtype)


def assert_as_stock(value: relay.Expr, data: np.ndarray) -> None:
    with exact_bits(True):
        expected = run(lower(value), [data])
    assert_close(value, [data], expected)


@pytest.mark.parametrize(
    ("shape", "size", "rule"),
    [
        ((1, 3, 5, 7), (11, 19), LINEAR),
        ((2, 5, 9, 13), (9, 13), LINEAR),
        ((1, 2, 17, 23), (6, 9), LINEAR),
        ((1, 4, 1, 1), (5, 6), LINEAR),
        ((2, 3, 4, 31), (9, 8), ("linear", "align_corners")),
        ((1, 1, 7, 3), (41, 33), ("linear", "asymmetric")),
        ((2, 3, 5, 7), (10, 21), NEAREST),
        ((1, 2, 17, 23), (6, 9), NEAREST),
    ],
)
def test_images_of_every_size_are_resized(
    shape: tuple[int, ...], size: tuple[int, int], rule: tuple[str, str]
) -> None:
    data = random(*shape)
    assert_close(resize(data, size, rule), [data], resized(data, size, *rule))


@pytest.mark.parametrize(
    ("channels", "rule"), [(3, LINEAR), (20, LINEAR), (70, LINEAR), (3, NEAREST), (20, NEAREST)]
)
def test_channels_lie_behind_the_image(channels: int, rule: tuple[str, str]) -> None:
    data = random(2, 5, 7, channels)
    expected = resized(data.transpose(0, 3, 1, 2), (10, 9), *rule).transpose(0, 2, 3, 1)
    assert_close(resize(data, (10, 9), rule, layout="NHWC"), [data], expected)


def test_blocks_of_channels_lie_behind_the_image() -> None:
    data = random(1, 3, 5, 7, 8)
    planes = data.transpose(0, 1, 4, 2, 3).reshape(1, 24, 5, 7)
    expected = resized(planes, (10, 9), *LINEAR).reshape(1, 3, 8, 10, 9).transpose(0, 1, 3, 4, 2)
    assert_close(resize(data, (10, 9), layout="NCHW8c"), [data], expected)


def test_what_goes_before_and_after_is_one_kernel() -> None:
    arrays = [random(2, 3, 6, 8), random(2, 3, 13, 21)]
    before = relay.exp(relay.var("x", shape=arrays[0].shape))
    image = relay.image.resize2d(before, (13, 21))
    value = relay.nn.relu(image - relay.var("y", shape=arrays[1].shape))
    expected = np.maximum(resized(np.exp(arrays[0]), (13, 21), *LINEAR) - arrays[1], 0)
    assert_close(value, arrays, expected)


@pytest.mark.slow(1)
def test_images_of_several_sizes_are_added() -> None:
    arrays = [random(1, 3, 4, 4), random(1, 3, 20, 30), random(1, 3, 7, 5)]
    small, large, last = (
        resize(data, (12, 12), rule)
        for data, rule in zip(arrays, (LINEAR, NEAREST, NEAREST), strict=True)
    )
    expected = resized(arrays[0], (12, 12), *LINEAR)
    expected = expected + sum(resized(data, (12, 12), *NEAREST) for data in arrays[1:])
    assert_close(small + large + last, arrays, expected)


def test_coordinates_are_computed_once() -> None:
    kernel = lower(resize(random(1, 64, 28, 28), (56, 56)))
    repeated: list[object] = []

    def look(node: object) -> None:
        if isinstance(node, tir.For) and node.kind == tir.ForKind.PARALLEL:
            tir.stmt_functor.post_order_visit(node, repeated.append)

    tir.stmt_functor.post_order_visit(kernel.function.body, look)
    assert repeated
    floor = tvm.ir.Op.get("tir.floor")
    assert not any(isinstance(node, tir.Call) and node.op.same_as(floor) for node in repeated)


def test_upsampling_is_a_resize() -> None:
    data = random(1, 3, 6, 8)
    value = relay.nn.upsampling(relay.var("x", shape=data.shape), 2, 2)
    assert_close(value, [data], data.repeat(2, 2).repeat(2, 3))


@pytest.mark.slow  # two kernels each
@pytest.mark.parametrize(
    ("rule", "named"),
    [
        (("linear", "pytorch_half_pixel"), {}),
        (("linear", "tf_crop_and_resize"), {"roi": (0.1, 0.2, 0.8, 0.9)}),
        (("cubic", "half_pixel"), {"cubic_alpha": -0.75}),
        (("cubic", "align_corners"), {}),
        (("cubic", "asymmetric"), {"cubic_exclude": 1}),
        (("nearest_neighbor", "half_pixel"), {"rounding_method": "round_prefer_ceil"}),
        (("nearest_neighbor", "align_corners"), {}),
        (("nearest_neighbor", "tf_half_pixel_for_nn"), {"rounding_method": "floor"}),
    ],
)
def test_other_rules_are_those_of_stock_tvm(rule: tuple[str, str], named: dict[str, Any]) -> None:
    data = random(1, 3, 6, 8)
    # More rows and fewer columns.
    assert_as_stock(resize(data, (13, 3), rule, **named), data)


@pytest.mark.slow  # two kernels each
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "float16", "float64"])
def test_other_types_are_those_of_stock_tvm(dtype: str) -> None:
    data = (random(1, 3, 6, 8) * 40).astype(dtype)
    for rule in (LINEAR, NEAREST):
        assert_as_stock(resize(data, (13, 21), rule), data)
    assert_as_stock(resize(data, (13, 21), out_dtype="float32"), data)


def test_not_a_number_and_infinities_spread_as_in_stock_tvm() -> None:
    data = random(1, 2, 6, 6)
    data[0, 0, 2, :3] = np.nan, np.inf, -np.inf
    assert_as_stock(resize(data, (12, 12)), data)


@pytest.mark.slow  # two kernels each
@pytest.mark.parametrize(
    "read",
    [
        lambda image: relay.concatenate([image, relay.nn.relu(image)], 1),
        lambda image: relay.concatenate([image] * 9, 1),
        lambda image: relay.concatenate([image, image], 3),
        lambda image: relay.transpose(image, (0, 2, 3, 1)),
        lambda image: relay.layout_transform(image, "NCHW", "NCHW8c"),
        lambda image: relay.image.resize2d(relay.nn.relu(image), (7, 9)),
    ],
    ids=["joined", "joined of many", "joined along rows", "transposed", "blocked", "again"],
)
def test_what_reads_the_image_elsewhere_is_right(read: Callable[[relay.Expr], relay.Expr]) -> None:
    data = random(1, 8, 6, 8)
    for size in ((13, 11), (3, 4)):
        assert_as_stock(read(resize(data, size)), data)
