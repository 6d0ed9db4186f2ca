"""The merged convolution of a merge stage, and its constants. No TVM here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tvm_ios.core.convolution_pattern import ConvolutionPattern
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.merge_rule import MergedConvolution, merge_convolutions
from tvm_ios.errors import ScheduleError

__all__ = ["merged_arguments", "merged_geometry", "pattern_of"]


def merged_geometry(graph: OperatorGraph, members: Sequence[int]) -> MergedConvolution:
    """Geometry of a merge stage; a ScheduleError names operators that may not merge, and why."""
    operators = [graph.operators[index] for index in members]
    try:
        return merge_convolutions([operator.convolution for operator in operators])
    except ScheduleError as error:
        names = ", ".join(operator.name for operator in operators)
        raise ScheduleError(f"stage of {names}: {error}") from error


def pattern_of(
    graph: OperatorGraph, patterns: Sequence[ConvolutionPattern | None], member: int
) -> ConvolutionPattern:
    """Pattern of an operator; a ScheduleError where it is no convolution that can be merged."""
    pattern = patterns[member]
    if pattern is None:
        name = graph.operators[member].name
        raise ScheduleError(f"operator {name!r} is no convolution that can be merged")
    return pattern


def merged_arguments(
    patterns: Sequence[ConvolutionPattern],
    fixed: Sequence[Mapping[int, np.ndarray]],
    geometry: MergedConvolution,
) -> dict[int, np.ndarray]:
    """Weights and per-channel arguments of a merged convolution, by the first member's positions.

    ``fixed`` are the constants of each member by position.
    """
    first = patterns[0]
    weights = [own[each.weight] for own, each in zip(fixed, patterns, strict=True)]
    merged = {first.weight: _merged_weight(weights, geometry, first.kernel_axes)}
    rank = len(first.convolution.result.shape)
    for step, position in enumerate(first.channelwise):
        values = [own[each.channelwise[step]] for own, each in zip(fixed, patterns, strict=True)]
        # One axis is that of channels, also for an operator that adds a bias along any axis.
        axis = first.channel_axis - (rank - values[0].ndim) if values[0].ndim > 1 else 0
        merged[position] = np.concatenate(values, axis=axis)
    return merged


def _merged_weight(
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
