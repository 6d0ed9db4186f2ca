"""Weights that whole numbers stand for, found by their values."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_ios.core.precision.whole_steps import steps_of_weights

SHAPE = (8, 5, 3, 3)


def whole(low=-127, high=127, seed=0):
    drawn = np.random.default_rng(seed).integers(low, high, SHAPE, endpoint=True)
    drawn[:, 0, 0, 0] = high if high > -low else low
    return drawn


def assert_found(weights, axes=(0,), *, nine_bits=False):
    steps, scales = steps_of_weights(weights, axes)
    limits = np.iinfo("int8")
    assert bool(((steps < limits.min) | (steps > limits.max)).any()) == nine_bits
    assert np.abs(steps - steps.clip(limits.min, limits.max)).max() <= limits.max
    assert len(scales) == np.prod([weights.shape[axis] for axis in axes])
    spread = np.ones(weights.ndim, int)
    for axis in axes:
        spread[axis] = weights.shape[axis]
    made = steps * scales.reshape([weights.shape[axis] for axis in axes]).reshape(spread)
    np.testing.assert_allclose(made, weights, rtol=1e-6)


@pytest.mark.parametrize("limits", [(-127, 127), (-128, 127), (-127, 128)])
def test_each_channel_has_its_scale(limits):
    scales = np.geomspace(1e-4, 30, SHAPE[0]).reshape(-1, 1, 1, 1)
    assert_found((whole(*limits) * scales).astype("float32"))


@pytest.mark.parametrize("limits", [(-100, 155), (-155, 100), (0, 255), (-254, 254)])
def test_weights_of_nine_bits_are_sums_of_two(limits):
    weights = (whole(*limits) * 0.0371).astype("float32")
    weights[3] = whole(-90, 90)[3]  # which fits
    assert_found(weights, nine_bits=True)


def test_one_scale_for_all_is_as_good():
    assert_found((whole() * 0.0371).astype("float32"))


def test_what_was_folded_into_weights_is_part_of_the_scale():
    weights = (whole() * np.float32(0.0371)).astype("float32")
    assert_found(weights * np.linspace(-0.7, 3, SHAPE[0]).reshape(-1, 1, 1, 1).astype("float32"))


def test_channels_may_lie_on_any_axis_or_on_two():
    weights = (whole() * 0.01).astype("float32")
    assert_found(np.ascontiguousarray(weights.transpose(2, 3, 1, 0)), axes=(3,))
    blocked = weights.reshape(2, 4, 5, 3, 3).transpose(0, 2, 3, 4, 1).copy()
    steps, scales = steps_of_weights(blocked, (0, 4))
    assert scales.shape == (8,)
    np.testing.assert_allclose(steps * scales.reshape(2, 1, 1, 1, 4), blocked, rtol=1e-6)


def test_few_steps_and_channels_of_zeros_are_found():
    weights = (whole(-3, 3) * 0.2).astype("float32")
    weights[2] = 0
    assert_found(weights)


@pytest.mark.parametrize(
    "weights",
    [
        np.random.default_rng(1).standard_normal(SHAPE).astype("float32"),
        (whole(-256, 256) * 0.01).astype("float32"),
        np.full(SHAPE, np.nan, "float32"),
    ],
    ids=["numbers", "one too many", "no numbers"],
)
def test_other_weights_are_no_steps(weights):
    assert steps_of_weights(weights, (0,)) is None
