"""Element-wise kernels: right for every shape, and in vectors where memory is side by side."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay.schedules.kernel import is_vectorised, lower, run
from tvm_ios.support.exact_bits import exact_bits


def hard_swish(value: relay.Expr) -> relay.Expr:
    gate = relay.clip(value + relay.const(3.0), 0, 6)
    return value * gate * relay.const(0.25)


def expected_hard_swish(value: np.ndarray) -> np.ndarray:
    return value * np.clip(value + 3.0, 0, 6) * 0.25


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


SHAPES = (
    (1, 3, 28, 28),
    (2, 5, 7, 7),
    (1, 65, 17, 17),
    (197, 197),
    (3, 1, 1),
    (7,),
    (1, 1),
    (2, 3, 5, 7, 16),
    (1, 2, 65, 65),
)


@pytest.mark.parametrize("shape", SHAPES)
def test_activations_of_every_shape_are_right(shape: tuple[int, ...]) -> None:
    data = random(*shape)
    kernel = lower(hard_swish(relay.var("x", shape=shape)))
    np.testing.assert_allclose(run(kernel, [data]), expected_hard_swish(data), rtol=1e-6)


@pytest.mark.parametrize("shape", [(1, 3, 28, 28), (197, 197), (1, 65, 17, 17)])
def test_ragged_rows_are_computed_in_vectors(shape: tuple[int, ...]) -> None:
    assert is_vectorised(lower(relay.nn.relu(relay.var("x", shape=shape))))


def test_not_a_number_and_infinities_stay_what_they_are() -> None:
    data = random(1, 3, 7, 7)
    data[0, 1, 2, :3] = np.nan, np.inf, -np.inf
    kernel = lower(relay.var("x", shape=data.shape) * relay.const(2.0))
    np.testing.assert_array_equal(run(kernel, [data]), data * 2)


def test_reshapes_inside_of_a_kernel_leave_its_vectors_whole() -> None:
    data = random(1, 6, 14, 14)
    rows = relay.reshape(relay.var("x", shape=data.shape), (1, 6, 196))
    kernel = lower(relay.squeeze(hard_swish(rows), [0]))
    assert is_vectorised(kernel)
    expected = expected_hard_swish(data).reshape(6, 196)
    np.testing.assert_allclose(run(kernel, [data]), expected, rtol=1e-6)


def test_shuffled_channels_are_moved_in_vectors() -> None:
    data = random(1, 6, 28, 28)
    split = relay.reshape(relay.var("x", shape=data.shape), (1, 2, 3, 28, 28))
    shuffled = relay.reshape(relay.transpose(split, (0, 2, 1, 3, 4)), data.shape)
    kernel = lower(relay.nn.relu(shuffled))
    assert is_vectorised(kernel)
    moved = data.reshape(1, 2, 3, 28, 28).transpose(0, 2, 1, 3, 4).reshape(data.shape)
    np.testing.assert_array_equal(run(kernel, [data]), np.maximum(moved, 0))


@pytest.mark.parametrize(
    ("shape", "factors"),
    [
        ((2, 5, 7, 7), (2, 5, 1, 1)),
        ((2, 3, 5, 7, 16), (2, 3, 1, 1, 16)),
        ((4, 17, 33), (33,)),
        ((4, 17, 33), (4, 1, 1)),
        ((4, 17, 33), (17, 1)),
        ((1, 3, 65, 65), (1, 3, 1, 1)),
    ],
)
def test_factors_of_fewer_axes_are_spread(shape: tuple[int, ...], factors: tuple[int, ...]) -> None:
    arrays = [random(*shape), random(*factors)]
    kernel = lower(relay.var("x", shape=shape) * relay.var("y", shape=factors))
    assert is_vectorised(kernel)
    np.testing.assert_array_equal(run(kernel, arrays), arrays[0] * arrays[1])


def test_what_is_not_side_by_side_is_right_too() -> None:
    data = random(1, 5, 6, 13)
    moved = relay.transpose(relay.var("x", shape=data.shape), (0, 2, 3, 1))
    padded = relay.nn.pad(moved, ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = np.pad(data.transpose(0, 2, 3, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
    np.testing.assert_array_equal(run(lower(padded), [data]), expected)


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((1, 24, 7, 9), (0, 2, 3, 1)),
        ((2, 9, 11, 24), (0, 3, 1, 2)),
        ((17, 35), (1, 0)),
        ((1, 20, 3, 8), (0, 2, 3, 1)),
        ((3, 20, 5, 16), (0, 2, 1, 3)),
        ((8, 8), (1, 0)),
        ((3, 40), (1, 0)),
        ((1, 2, 5, 7, 16), (0, 1, 4, 2, 3)),
    ],
)
def test_transposes_are_right(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    arrays = [random(*shape), random(*(shape[axis] for axis in order))]
    moved = relay.transpose(relay.var("x", shape=shape), order)
    kernel = lower(hard_swish(moved) + relay.var("y", shape=arrays[1].shape))
    expected = expected_hard_swish(arrays[0]).transpose(order) + arrays[1]
    np.testing.assert_allclose(run(kernel, arrays), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("extents", [(14, 14), (7, 7), (5, 3), (1, 1)])
def test_layouts_are_changed_in_vectors(extents: tuple[int, int]) -> None:
    high, wide = extents
    data, factor = random(2, 32, high, wide), random(2, 32, 1, 1)
    scaled = relay.var("x", shape=data.shape) * relay.var("y", shape=factor.shape)
    blocked = (data * factor).reshape(2, 2, 16, high, wide).transpose(0, 1, 3, 4, 2)
    there = lower(relay.layout_transform(scaled, "NCHW", "NCHW16c"))
    np.testing.assert_array_equal(run(there, [data, factor]), blocked)
    back = lower(relay.layout_transform(relay.var("x", shape=blocked.shape), "NCHW16c", "NCHW"))
    np.testing.assert_array_equal(run(back, [blocked]), data * factor)
    assert not high * wide >= 8 or (is_vectorised(there) and is_vectorised(back))


def test_one_tensor_as_it_is_and_transposed_is_one_kernel() -> None:
    data = random(3, 24, 24)
    value = relay.var("x", shape=data.shape)
    kernel = lower(value - relay.transpose(value, (0, 2, 1)))
    assert is_vectorised(kernel)
    np.testing.assert_array_equal(run(kernel, [data]), data - data.transpose(0, 2, 1))


@pytest.mark.parametrize("dtype", ["int8", "bool", "int32", "float64"])
def test_other_types_are_transposed(dtype: str) -> None:
    data = (np.arange(20 * 33).reshape(20, 33) % 7).astype(dtype)
    kernel = lower(relay.transpose(relay.var("x", shape=data.shape, dtype=dtype)))
    np.testing.assert_array_equal(run(kernel, [data]), data.T)


def test_rows_that_are_looked_up_are_copied_in_vectors() -> None:
    table, places = random(9, 40), np.array([3, 8, 0], "int32")
    found = relay.take(relay.var("x", shape=table.shape), relay.const(places), axis=0)
    kernel = lower(found)
    assert is_vectorised(kernel)
    np.testing.assert_array_equal(run(kernel, [table, places]), table[places])


def test_exact_bits_keep_the_schedule_of_stock_tvm() -> None:
    activation = relay.nn.relu(relay.var("x", shape=(1, 3, 28, 28)))
    with exact_bits(True):
        exact = lower(activation)
    assert exact.code != lower(activation).code


IN_INT64 = """#[version = "0.0.5"]
def @main(%x: Tensor[(196, 16), float32]) {
  %0 = reshape(%x, newshape=[1, 14, 14, 16]);
  %1 = strided_slice(%0, begin=[0i64], end=[999i64], strides=[2i64], axes=[1i64]);
  %2 = strided_slice(%1, begin=[0i64], end=[999i64], strides=[2i64], axes=[2i64]);
  reshape(%2, newshape=[49, 16])
}"""


def test_slices_that_count_in_int64_are_right() -> None:
    data = random(196, 16)
    module = relay.transform.InferType()(relay.parse(IN_INT64))
    expected = data.reshape(14, 14, 16)[::2, ::2].reshape(49, 16)
    np.testing.assert_array_equal(run(lower(module["main"].body), [data]), expected)
