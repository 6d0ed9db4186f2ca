"""Weights as bytes with scales and zero points for blocks, found by their values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.whole_weights import steps_of_weights
from tvm_ios.core.precision.block_weights import block_weights_of


def numbers(found):
    blocks = [np.repeat(each, found.block, axis=1) for each in (found.scales, found.zeros)]
    scales, zeros = (each[:, : found.steps.shape[1]] for each in blocks)
    return (found.steps - zeros) * scales


@pytest.mark.parametrize("block", [0, 128, 64, 32, 16])
@pytest.mark.parametrize("least", [-127, -128, -100, 0, -255, -8])
def test_steps_of_blocks_are_found_with_their_zero_points(block, least):
    weights = steps_of_weights(40, 200, block=block, least=least)
    weights[7, : block or None] = 0
    found = block_weights_of(weights)
    assert found.block == (block or 200)
    assert found.steps.dtype == "int8"
    assert found.zeros.any() == (least == -255)
    np.testing.assert_allclose(numbers(found), weights, rtol=1e-6)


def test_a_block_that_reaches_further_than_others_is_found():
    weights = np.random.default_rng(0).integers(-7, 8, (40, 64)) * np.float32(0.01)
    weights[3, 5], weights[4, 50] = 1.01, -0.83
    np.testing.assert_allclose(numbers(block_weights_of(weights)), weights, rtol=1e-6)


def test_other_weights_are_no_steps():
    random = np.random.default_rng(0).standard_normal((40, 64), "float32")
    assert block_weights_of(random) is None
    weights = steps_of_weights(40, 64)
    weights[20] = random[20]
    assert block_weights_of(weights) is None
    assert block_weights_of(steps_of_weights(40, 64) + np.float32(1e-4)) is None
    assert block_weights_of(np.full((40, 64), np.nan, "float32")) is None
