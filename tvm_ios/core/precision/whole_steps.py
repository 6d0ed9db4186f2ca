"""Whole numbers that stand for weights, found by the values of these. No TVM."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["MOST", "NEAR", "steps_of_weights"]

MOST = 128
"""Greatest number of steps from 0 in ``int8``, which only those below 0 may have."""
MOST_OF_TWO = 255
"""Greatest number of steps from 0 in a sum of two weights: those of unsigned bytes and any zero
point."""
NEAR = 1e-4
"""Largest distance from a whole number of steps, in steps: sums of float32 come as near."""
SAMPLE = 32
"""Weights of a channel that are looked at first."""


def steps_of_weights(
    weights: np.ndarray, axes: Sequence[int], first: Sequence[int] = ()
) -> tuple[np.ndarray, np.ndarray] | None:
    """Whole numbers in int16, and a scale for each channel; None where weights are no such steps.

    They fit into int8, or are sums of two numbers that do. ``axes`` are those of the channels.
    ``first`` are numbers of steps that the largest weight of a channel likely is.
    """
    others = [axis for axis in range(weights.ndim) if axis not in axes]
    rows = np.transpose(weights, [*axes, *others]).reshape(
        int(np.prod([weights.shape[axis] for axis in axes])), -1
    )
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    scales = np.zeros(len(rows), "float32")
    scales[largest == 0] = 1
    sample = rows[:, :: max(1, rows.shape[1] // SAMPLE)]
    # Steps of half the size are whole as well, so that int8 comes first.
    for count in (*first, *range(MOST, 0, -1), *range(MOST + 1, MOST_OF_TWO + 1)):
        rest = np.flatnonzero(scales == 0)
        if not rest.size:
            break
        tried = np.abs(largest[rest]) / np.float32(count)
        if count >= MOST:  # int8 has one more number below 0 than above.
            tried = -largest[rest] / np.float32(count)
        most = max(count, MOST)
        fits = _are_steps(sample[rest], tried, most)
        fits[fits] = _are_steps(rows[rest[fits]], tried[fits], most)
        scales[rest[fits]] = tried[fits]
    if not scales.all():
        return None
    steps = np.rint(rows / scales[:, None]).astype("int16")
    moved = steps.reshape([weights.shape[axis] for axis in (*axes, *others)])
    return np.transpose(moved, np.argsort([*axes, *others])).copy(), scales


def _are_steps(rows: np.ndarray, scales: np.ndarray, most: int) -> np.ndarray:
    """True for rows of whole numbers of steps, all below a greatest one."""
    steps = rows / scales[:, None]
    whole = np.rint(steps)
    found: np.ndarray = (np.abs(steps - whole) < NEAR).all(axis=1) & (whole < most).all(axis=1)
    return found
