"""Schedule of sums, maxima and their like over axes, and of poolings of whole images.

TVM's own add one element after the other, each waiting for the one before: LLVM may not change
the order of sums. Here a vector of results, or of partial ones, is gathered at once, in registers.
A number of all elements is gathered in parts, by all lanes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import te, tir

from tvm_ios.relay.row_kernels.tensors import constant
from tvm_ios.relay.schedules.flat_axes import extents_of, flat_suffix, reads_of
from tvm_ios.relay.schedules.whole_vectors import mark

__all__ = ["schedule_reduction"]

WIDTHS = (64, 32, 16)
"""Results that are gathered at once, as many as divide an axis."""
WIDEST = 64
"""Extent of an axis whose results are gathered at once if none of these divides it."""

PART = 1024
"""Elements of a part that are worth a task of their own."""
MOST_PARTS = 16


def schedule_reduction(outs: te.Tensor | Sequence[te.Tensor]) -> te.Schedule | None:
    """Schedule of one reduction with what is fused with it; None where TVM's own has to do."""
    outs = [outs] if isinstance(outs, te.Tensor) else list(outs)
    if len(outs) != 1 or extents_of(outs[0].shape) is None:
        return None
    gathered = _reduction_behind(outs[0])
    reads = None if gathered is None else reads_of(gathered.op)
    if gathered is None or reads is None:
        return None
    results, summed = list(gathered.op.axis), list(gathered.op.reduce_axis)
    along = min(len(summed), flat_suffix([*results, *summed], reads))
    parts = _parts(gathered) if along == len(summed) else 1
    if parts > 1:
        return _in_parts(outs[0], gathered, parts)
    if along and results:
        return _along_rows(outs[0], gathered, along)
    if results and int(results[-1].dom.extent) > 1 and flat_suffix([*summed, *results], reads):
        return _across_rows(outs[0], gathered)
    return None


def _reduction_behind(out: te.Tensor) -> te.Tensor | None:
    """The reduction that an output is made from element by element."""
    tensor = out
    while isinstance(tensor.op, te.ComputeOp) and not tensor.op.reduce_axis:
        before = [each for each in tensor.op.input_tensors if isinstance(each.op, te.ComputeOp)]
        if len(before) != 1 or extents_of(before[0].shape) != extents_of(out.shape):
            return None
        tensor = before[0]
    if not isinstance(tensor.op, te.ComputeOp) or len(tensor.op.body) != 1:
        return None
    extents = [*tensor.op.axis, *tensor.op.reduce_axis]
    return tensor if all(constant(axis.dom.extent) for axis in extents) else None


def _begun(out: te.Tensor, gathered: te.Tensor) -> tuple[te.Schedule, te.Stage, te.Stage]:
    """Schedule with the stage of the output, and of what is gathered in memory of its own."""
    schedule = te.create_schedule(out.op)
    te.schedule.AutoInlineInjective(schedule)
    if gathered.same_as(out):
        gathered = schedule.cache_write(out, "global")
    return schedule, schedule[out], schedule[gathered]


def _parts(gathered: te.Tensor) -> int:
    """Parts that one number of many elements is gathered in; 1 of few, or of several numbers."""
    if math.prod(extents_of(gathered.shape) or []) > 1:
        return 1
    elements = math.prod(int(axis.dom.extent) for axis in gathered.op.reduce_axis)
    most = min(MOST_PARTS, elements // PART)
    return next((count for count in range(most, 1, -1) if elements % count == 0), 1)


def _in_parts(out: te.Tensor, gathered: te.Tensor, count: int) -> te.Schedule:
    """Schedule that gathers one number of as many parts of all elements as are told."""
    schedule = te.create_schedule(out.op)
    te.schedule.AutoInlineInjective(schedule)
    whole = schedule[gathered]
    part, _ = whole.split(whole.fuse(*whole.op.reduce_axis), nparts=count)
    parts = schedule[schedule.rfactor(gathered, part)]
    parts.parallel(parts.op.axis[0])
    mark(parts, parts.op.reduce_axis[0])
    return schedule


def _along_rows(out: te.Tensor, gathered: te.Tensor, count: int) -> te.Schedule:
    """Schedule that reduces rows: the last ``count`` reduced axes are a loop over memory."""
    schedule, final, partial = _begun(out, gathered)
    outer = final.fuse(*final.op.axis)
    final.parallel(outer)
    partial.compute_at(final, outer)
    mark(partial, partial.fuse(*list(partial.op.reduce_axis)[-count:]))
    return schedule


def _across_rows(out: te.Tensor, gathered: te.Tensor) -> te.Schedule | None:
    """Schedule that reduces many rows into one, whose elements lie side by side."""
    schedule, final, partial = _begun(out, gathered)
    *rest, last = final.op.axis
    extent = int(last.dom.extent)
    width = next((width for width in WIDTHS if extent % width == 0), extent)
    if width < extent:
        chunk, last = final.split(last, factor=width)
        rest.append(chunk)
    if not rest:
        return None
    outer = final.fuse(*rest)
    final.parallel(outer)
    partial.compute_at(final, outer)
    own: list[tir.IterVar] = list(partial.op.axis)
    partial.reorder(*own[:-1], *partial.op.reduce_axis, own[-1])
    for stage, axis in ((final, last), (partial, own[-1])):
        if width <= WIDEST:
            stage.vectorize(axis)
        else:
            mark(stage, axis)
    return schedule
