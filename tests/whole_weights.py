"""Weights of quantised layers, for tests of either dialect. No TVM."""

from __future__ import annotations

import numpy as np


def steps_of_weights(*shape: int, block: int = 0, least: int = -127, seed: int = 0) -> np.ndarray:
    """Weights ``(outputs, inputs)`` that are whole steps of a byte, from a least one on.

    Each block of a row has a scale of its own; a whole row has where no block is told.
    """
    random = np.random.default_rng(seed)
    outputs, inputs = shape
    block = block or inputs
    steps = random.integers(least, min(127, least + 255), (outputs, -(-inputs // block), block))
    steps[..., 0] = least
    steps[..., 1] = min(127, least + 255)
    scales = random.uniform(5e-4, 2e-3, (*steps.shape[:2], 1)).astype("float32")
    numbers = steps.astype("float32") * scales
    return numbers.reshape(outputs, -1)[:, :inputs].copy()
