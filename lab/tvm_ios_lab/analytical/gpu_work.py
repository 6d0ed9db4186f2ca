"""Work of one kernel, whatever GPU it runs on: the input of the analytical prices.

A kernel is either a matrix product, as dense convolutions and layers are (``rows`` pixels times
``columns`` channels, each a sum over ``depth`` products), or a stream that computes every output
by itself (``columns`` is 1): pooling, depthwise convolution, sums, copies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.core.graph import Convolution, Operator, OperatorGraph
from tvm_ios.core.merge_rule import merge_convolutions
from tvm_ios.errors import CostError
from tvm_ios_lab.problems.synthetic import PrimitiveWork

__all__ = [
    "FLOAT_BYTES",
    "KernelWork",
    "copy_work",
    "merge_members",
    "merged_work",
    "operator_work",
    "product_of",
    "recorded_work",
    "works_for",
]

FLOAT_BYTES = 4
"""Everything is counted in float32."""
PRODUCTS = ("conv", "dense", "matmul")
"""Kinds of operators that are matrix products, unless they are depthwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelWork:
    """Work of one kernel."""

    matrix_product: bool
    rows: int
    """Pixels of all images; of a stream, all outputs."""
    columns: int
    """Number of output channels; 1 of a stream."""
    depth: float
    """Multiply-adds for one output."""
    activation_bytes: int
    """Bytes read from, or written for, other kernels."""
    weight_bytes: int = 0

    @property
    def outputs(self) -> int:
        """Number of elements written."""
        return self.rows * self.columns

    @property
    def flops(self) -> float:
        """Number of floating-point operations; a multiply-add counts two."""
        return 2 * self.outputs * self.depth


def operator_work(operator: Operator) -> tuple[KernelWork, ...]:
    """The kernels of an operator of a model: one, or none where it is but a view."""
    if operator.view:
        return ()
    outputs = operator.output_elements or max(1, operator.memory_bytes // (2 * FLOAT_BYTES))
    depth = operator.flops / (2 * outputs)
    convolution = operator.convolution
    if convolution is not None and convolution.groups == 1:
        weight_bytes = FLOAT_BYTES * convolution.out_channels * _window(convolution)
        work = _product(
            convolution.out_channels,
            outputs,
            depth=max(depth, _window(convolution)),
            activation_bytes=max(0, operator.memory_bytes - weight_bytes),
            weight_bytes=weight_bytes,
        )
    elif depth and _is_product(operator):
        columns = _columns(outputs, depth, operator.memory_bytes)
        weight_bytes = min(operator.memory_bytes, round(FLOAT_BYTES * columns * depth))
        work = _product(
            columns,
            outputs,
            depth=depth,
            activation_bytes=operator.memory_bytes - weight_bytes,
            weight_bytes=weight_bytes,
        )
    else:
        work = _stream(outputs, depth=depth, activation_bytes=operator.memory_bytes)
    return (work,)


def works_for(
    graph: OperatorGraph, works: Sequence[Sequence[KernelWork]] | None
) -> Sequence[Sequence[KernelWork]]:
    """The kernels of every operator of a graph: those that are given, else what operators tell."""
    if works is None:
        return [operator_work(operator) for operator in graph.operators]
    if len(works) != len(graph):
        raise CostError(
            f"graph {graph.name!r} has {len(graph)} operators, but there is work of "
            f"{len(works)}; use the cost model of this graph"
        )
    return works


def merge_members(
    graph: OperatorGraph, works: Sequence[Sequence[KernelWork]], members: Sequence[int]
) -> tuple[list[Convolution], list[KernelWork]]:
    """The convolutions of a merge, and the kernel of each that is its product."""
    convolutions = []
    for index in members:
        operator = graph.operators[index]
        if operator.convolution is None or not works[index]:
            raise CostError(
                f"graph {graph.name!r}: operator {index} ({operator.name!r}) is merged but is no "
                "convolution"
            )
        convolutions.append(operator.convolution)
    return convolutions, [product_of(works[index]) for index in members]


def merged_work(members: Sequence[Convolution], works: Sequence[KernelWork]) -> KernelWork:
    """The one kernel of a merge: all output channels, and the window that holds every member's.

    Parameters
    ----------
    members, works
        The convolutions and the kernel of each.
    """
    merged = merge_convolutions(members)
    channels = merged.input_shape[0]
    window = channels * merged.kernel[0] * merged.kernel[1]
    # What a member does beyond its products (its epilogue) stays as it is.
    extra = max(work.depth - _window(member) for work, member in zip(works, members, strict=True))
    rows = max(work.rows for work in works)
    images = max(1, rows // max(1, math.prod(members[0].output_size)))
    read_bytes = FLOAT_BYTES * images * math.prod(merged.input_shape)
    return KernelWork(
        matrix_product=True,
        rows=rows,
        columns=merged.out_channels,
        depth=window + max(0.0, extra),
        activation_bytes=read_bytes + FLOAT_BYTES * rows * merged.out_channels,
        weight_bytes=FLOAT_BYTES * merged.out_channels * window,
    )


def product_of(works: Sequence[KernelWork]) -> KernelWork:
    """The convolution among the kernels of one: sums may come before it, a bias behind it."""
    return next((work for work in reversed(works) if work.matrix_product), works[-1])


def copy_work(work: KernelWork) -> KernelWork:
    """A copy of all that a kernel writes."""
    return _stream(work.outputs, depth=0, activation_bytes=2 * FLOAT_BYTES * work.outputs)


def recorded_work(
    primitives: Sequence[PrimitiveWork], convolution: Convolution | None
) -> tuple[KernelWork, ...]:
    """The kernels of an operator of a recorded problem.

    A row holds work, outputs and kernels; what kind of kernel it is follows from them. A pointwise
    convolution behind another row does one multiply-add for each input channel and one for the
    bias, and its channels are a divisor of what that row wrote.
    """
    works: list[KernelWork] = []
    written = 0
    for row in primitives:
        last = row is primitives[-1]
        if convolution is not None and last:
            works += _recorded_convolution(row, convolution)
        elif row.kernels:
            works += _recorded_row(row, written)
        written = row.output_elements
    return tuple(works)


def _recorded_convolution(row: PrimitiveWork, convolution: Convolution) -> list[KernelWork]:
    depth = _window(convolution)
    pixels = max(1, math.prod(convolution.output_size))
    images = max(1, row.output_elements // (pixels * convolution.out_channels))
    read_bytes = FLOAT_BYTES * images * math.prod(convolution.input_shape)
    activation_bytes = read_bytes + FLOAT_BYTES * row.output_elements
    weight_bytes = FLOAT_BYTES * convolution.out_channels * depth
    if convolution.groups > 1:
        work = _stream(
            row.output_elements, depth=depth, activation_bytes=activation_bytes + weight_bytes
        )
    else:
        work = _product(
            convolution.out_channels,
            row.output_elements,
            depth=depth,
            activation_bytes=activation_bytes,
            weight_bytes=weight_bytes,
        )
    before = max(0, row.work - row.output_elements * (depth + 1))
    return [*_sums(before, read_bytes // FLOAT_BYTES, row.kernels - 1), work]


def _recorded_row(row: PrimitiveWork, read: int) -> list[KernelWork]:
    """A row of what is no plain convolution; ``read`` elements were written by the row before."""
    outputs = row.output_elements
    channels, rest = divmod(row.work, outputs)
    channels -= 1
    if not rest and read and channels > 0 and not read % channels and channels not in _WINDOWS:
        pixels = read // channels
        if outputs % pixels:  # a stride of two
            pixels = (math.isqrt(pixels - 1) // 2 + 1) ** 2
        columns = max(1, outputs // pixels)
        return [
            _product(
                columns,
                outputs,
                depth=channels,
                activation_bytes=FLOAT_BYTES * (read + outputs),
                weight_bytes=FLOAT_BYTES * columns * channels,
            )
        ]
    if row.kernels == 1 and (read or channels + 1 in _WINDOWS):
        # A window reads its input again and again, but it is in the cache by then.
        activation_bytes = FLOAT_BYTES * ((read or outputs) + outputs)
        # Depthwise convolutions multiply and add, poolings do but one of the two.
        depthwise = not rest and channels in _WINDOWS
        depth = channels if depthwise else row.work / outputs / 2
        return [_stream(outputs, depth=depth, activation_bytes=activation_bytes)]
    return _sums(row.work, outputs, row.kernels)


_WINDOWS = frozenset({9, 25, 49})
"""Multiply-adds of an output of a depthwise convolution, or elements a pooling reads for one."""


def _sums(read: int, written: int, kernels: int) -> list[KernelWork]:
    """Sums, copies and the like that together read so many elements."""
    if not kernels:
        return []
    each_bytes = FLOAT_BYTES * (read // kernels + written)
    depth = read / kernels / max(1, written) / 2
    return [_stream(max(1, written), depth=depth, activation_bytes=each_bytes)] * kernels


def _product(
    columns: int, outputs: int, *, depth: float, activation_bytes: int, weight_bytes: int
) -> KernelWork:
    return KernelWork(
        matrix_product=True,
        rows=max(1, -(-outputs // columns)),
        columns=columns,
        depth=depth,
        activation_bytes=activation_bytes,
        weight_bytes=weight_bytes,
    )


def _stream(outputs: int, *, depth: float, activation_bytes: int) -> KernelWork:
    return KernelWork(
        matrix_product=False,
        rows=outputs,
        columns=1,
        depth=depth,
        activation_bytes=activation_bytes,
    )


def _is_product(operator: Operator) -> bool:
    kind = operator.kind
    return any(word in kind for word in PRODUCTS) and "depthwise" not in kind


def _window(convolution: Convolution) -> int:
    """Multiply-adds of one output."""
    channels = convolution.input_shape[0] // convolution.groups
    return channels * convolution.kernel[0] * convolution.kernel[1]


def _columns(outputs: int, depth: float, memory_bytes: int) -> int:
    """The smaller side of a product that reads both operands once and writes its outputs.

    Rows times columns are the outputs, and rows plus columns the operands' elements by the depth.
    """
    sides = (memory_bytes / FLOAT_BYTES - outputs) / max(1.0, depth)
    root = math.sqrt(max(0.0, sides * sides - 4 * outputs))
    return max(1, min(outputs, round((sides - root) / 2))) if sides > 0 else 1
