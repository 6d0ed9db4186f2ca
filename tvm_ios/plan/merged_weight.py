"""Weight of a merged convolution, from those of its members. No TVM here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_ios.core.merge_rule import MergedConvolution

__all__ = ["merged_weight"]


def merged_weight(
    weights: Sequence[np.ndarray], geometry: MergedConvolution, axes: tuple[int, int, int]
) -> np.ndarray:
    """Weights of the members along the output channels, each at its offset in the kernel.

    ``axes`` are those of output channels, rows and columns.
    """
    height, width = geometry.kernel
    out_axis, row_axis, column_axis = axes
    padded = []
    for weight, member in zip(weights, geometry.members, strict=True):
        row, column = member.kernel_offset
        zeros = [(0, 0)] * weight.ndim
        zeros[row_axis] = (row, height - row - weight.shape[row_axis])
        zeros[column_axis] = (column, width - column - weight.shape[column_axis])
        padded.append(np.pad(weight, zeros))
    return np.concatenate(padded, axis=out_axis)
