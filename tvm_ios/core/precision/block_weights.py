"""Weights as whole numbers of one byte, with scales and zero points for blocks of them.

They are found by the values of the weights.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from tvm_ios.core.precision.low_precision import FLOAT32
from tvm_ios.core.precision.stored_type import LIMITS, WHOLE, StoredType
from tvm_ios.core.precision.whole_steps import MOST, NEAR, steps_of_weights

__all__ = [
    "LEAST_BLOCK",
    "LEAST_WEIGHTS",
    "MOST_ROWS",
    "BlockWeights",
    "block_weights_of",
    "bytes_of_table",
    "may_be_steps",
]

MOST_ROWS = 16
"""Rows of data up to which weights of bytes are faster: of more, weights are read once for all of
them in any type."""
LEAST_WEIGHTS = 1 << 16
"""Weights from which on they are: fewer lie in the nearest cache in any type."""

LEAST_BLOCK = 16
"""Weights that share a scale in any case."""
BLOCKS = (512, 256, 128, 64, 32, LEAST_BLOCK)
"""Numbers of weights that may share a scale, besides all of a column."""
FEW = 8
"""Columns that are looked at first."""
MOST_STEPS = 255
"""Greatest difference of two whole numbers of a byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockWeights:
    """Weights as whole numbers of one byte, with a scale for each block of a column's."""

    steps: np.ndarray
    """Whole numbers in int8, ``(outputs, inputs)``."""
    scales: np.ndarray
    """Numbers of float32, ``(outputs, blocks)``."""
    zeros: np.ndarray
    """Whole numbers that stand for 0, in float32, of the shape of the scales."""
    block: int
    """Weights that share a scale; the last block may be smaller."""

    def packed(self, panel: int) -> list[np.ndarray]:
        """Weights in panels of some columns, and scales; zero points as well, unless all are 0."""
        outputs, inputs = self.steps.shape
        more = -outputs % panel
        steps = np.pad(self.steps, ((0, more), (0, 0))).reshape(-1, panel, inputs)
        of_blocks = [self.scales, self.zeros] if self.zeros.any() else [self.scales]
        numbers = [np.pad(each, ((0, more), (0, 0))).T for each in of_blocks]
        return [np.ascontiguousarray(each) for each in (steps.transpose(0, 2, 1), *numbers)]


def block_weights_of(weights: np.ndarray) -> BlockWeights | None:
    """Whole numbers of a byte for weights ``(outputs, inputs)``; None where they are no such steps.

    The largest blocks that share a scale are found.
    """
    inputs = weights.shape[1]
    if not may_be_steps(weights[0, :LEAST_BLOCK]):
        return None
    few = weights[:: max(1, len(weights) // FEW)]
    for block in (inputs, *(each for each in BLOCKS if each < inputs)):
        if may_be_steps(weights[0, :block]) and in_blocks(few, block) is not None:
            return in_blocks(weights, block)
    return None


def bytes_of_table(numbers: np.ndarray) -> tuple[StoredType, np.ndarray] | None:
    """Bytes that stand for a table, and their type; None where it has no scale for all numbers."""
    whole = numbers.reshape(1, -1)
    found = in_blocks(whole, whole.size) if may_be_steps(whole[0, :LEAST_BLOCK]) else None
    if found is None:
        return None
    type_ = StoredType(
        dtype=WHOLE.dtype, scale=found.scales.item(), zero_point=int(found.zeros.item())
    )
    steps = found.steps.astype("int16") - LIMITS[WHOLE.dtype][0]
    return type_.unsigned(), steps.astype("uint8").reshape(numbers.shape)


def may_be_steps(numbers: np.ndarray) -> bool:
    """False if some weights of one block are no steps of whatever size."""
    counts = np.arange(1, MOST_STEPS + 1, dtype="float32")
    steps = numbers / np.maximum(np.abs(numbers).max() / counts, np.finfo("float32").tiny)[:, None]
    return bool((np.abs(steps - np.rint(steps)) < NEAR).all(axis=1).any())


def in_blocks(weights: np.ndarray, block: int) -> BlockWeights | None:
    """Weights with a scale for each block of some length, where they are whole numbers of steps."""
    outputs, inputs = weights.shape
    blocks = -(-inputs // block)
    rows = np.pad(weights, ((0, 0), (0, blocks * block - inputs))).reshape(-1, block)
    scales = _steps_of_rows(rows)
    if scales is None:
        return None
    steps = np.rint(rows / scales[:, None]).astype("int16")
    wide = np.flatnonzero(np.ptp(steps, axis=1) > MOST_STEPS)
    if wide.size:  # unless its steps are parts of larger ones
        parts = np.gcd.reduce(steps[wide], axis=1)
        steps[wide] //= parts[:, None]
        scales[wide] *= parts
    low, high = steps.min(axis=1), steps.max(axis=1)
    least, most = LIMITS[WHOLE.dtype]
    if (high - low > MOST_STEPS).any():
        return None
    zeros = np.where((low < least) | (high > most), least - low, 0).astype("int16")
    whole = (steps + zeros[:, None]).astype(WHOLE.dtype).reshape(outputs, -1)[:, :inputs]
    return BlockWeights(
        steps=whole,
        scales=scales.reshape(outputs, blocks),
        zeros=zeros.astype(FLOAT32).reshape(outputs, blocks),
        block=block,
    )


def _steps_of_rows(rows: np.ndarray) -> np.ndarray | None:
    """Scale of each row; None where one is no whole steps."""
    # A few rows tell how many steps the largest numbers are; looking for that takes long.
    few = steps_of_weights(rows[:: max(1, len(rows) // FEW)], (0,))
    if few is None:
        return None
    counts = Counter(np.abs(few[0]).max(axis=1).tolist())
    scales = np.zeros(len(rows), FLOAT32)
    if max(counts) > MOST:
        # Weights with a zero point use all numbers of a byte, whichever of them is the largest.
        spread = np.maximum(rows.max(axis=1), 0) - np.minimum(rows.min(axis=1), 0)
        tried = np.maximum(spread / np.float32(MOST_STEPS), np.finfo(FLOAT32).tiny)
        steps = rows / tried[:, None]
        fits = (np.abs(steps - np.rint(steps)) < NEAR).all(axis=1)
        scales[fits] = tried[fits]
    rest = np.flatnonzero(scales == 0)
    if not rest.size:
        return scales
    found = steps_of_weights(rows[rest], (0,), first=[each for each, _ in counts.most_common()])
    if found is None:
        return None
    scales[rest] = found[1]
    return scales
