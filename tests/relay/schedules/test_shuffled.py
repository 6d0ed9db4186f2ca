"""Loops in patterns: right for every shape, and made from vectors of what is read."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay.schedules.kernel import is_vectorised, lower, run


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def blocked(data: np.ndarray, block: int) -> np.ndarray:
    batch, channels, *extents = data.shape
    parts = data.reshape(batch, channels // block, block, *extents)
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 4, 2))


@pytest.mark.parametrize(
    ("channels", "old", "new"), [(24, 4, 12), (24, 8, 12), (32, 8, 16), (32, 16, 4), (6, 2, 3)]
)
@pytest.mark.parametrize("extents", [(3, 5), (9, 16), (1, 1)])
def test_blocks_become_others(channels: int, old: int, new: int, extents: tuple[int, int]) -> None:
    data = random(2, channels, *extents)
    before, after = blocked(data, old), blocked(data, new)
    moved = relay.layout_transform(relay.var("x", shape=before.shape), f"NCHW{old}c", f"NCHW{new}c")
    np.testing.assert_array_equal(run(lower(moved), [before]), after)


@pytest.mark.parametrize("shape", [(1, 3, 9, 16), (2, 4, 7, 5), (1, 5, 1, 3), (1, 2, 17, 19)])
def test_few_channels_go_last_and_back(shape: tuple[int, ...]) -> None:
    data = random(*shape)
    last = relay.nn.relu(relay.transpose(relay.var("x", shape=shape), (0, 2, 3, 1)))
    expected = np.ascontiguousarray(data.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(run(lower(last), [data]), np.maximum(expected, 0))
    first = relay.transpose(relay.var("x", shape=expected.shape), (0, 3, 1, 2))
    np.testing.assert_array_equal(run(lower(first), [expected]), data)


@pytest.mark.parametrize("channels", [58, 6, 116, 40])
@pytest.mark.parametrize("groups", [2])
def test_channels_that_lie_side_by_side_are_shuffled(channels: int, groups: int) -> None:
    data, other = random(1, 3, 5, channels), random(1, 3, 5, channels)
    split = relay.reshape(relay.var("x", shape=data.shape), (1, 3, 5, groups, -1))
    shuffled = relay.reshape(relay.transpose(split, (0, 1, 2, 4, 3)), data.shape)
    kernel = lower(shuffled + relay.var("y", shape=data.shape))
    moved = data.reshape(1, 3, 5, groups, -1).swapaxes(3, 4).reshape(data.shape)
    np.testing.assert_array_equal(run(kernel, [data, other]), moved + other)
    assert is_vectorised(kernel)


@pytest.mark.parametrize("wide", [8, 31, 64, 7])
def test_every_second_row_and_column_is_read_in_vectors(wide: int) -> None:
    data = random(1, 3, 6, wide)
    sliced = relay.strided_slice(relay.var("x", shape=data.shape), [1], [wide], [2], axes=[3])
    np.testing.assert_array_equal(run(lower(sliced), [data]), data[..., 1::2])


@pytest.mark.parametrize("shape", [(1, 8, 5, 16), (2, 4, 3, 7), (1, 12, 2, 2)])
def test_depth_becomes_space_and_back(shape: tuple[int, ...]) -> None:
    data = random(*shape)
    batch, channels, high, wide = shape
    parts = data.reshape(batch, 2, 2, channels // 4, high, wide)
    image = parts.transpose(0, 3, 4, 1, 5, 2).reshape(batch, channels // 4, 2 * high, 2 * wide)
    value = relay.var("x", shape=shape)
    np.testing.assert_array_equal(run(lower(relay.nn.depth_to_space(value, 2)), [data]), image)
    back = relay.nn.space_to_depth(relay.var("x", shape=image.shape), 2)
    np.testing.assert_array_equal(run(lower(back), [np.ascontiguousarray(image)]), data)
