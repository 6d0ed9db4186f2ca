"""Schedule of element-wise kernels: loops over flat axes are one, in whole vectors.

TVM's own vectorises the last axis only: where its extent is no multiple of a vector, each element
asks whether it exists; where shapes change inside the kernel, each asks where it came from.
"""

from __future__ import annotations

import math

from tvm import te

from tvm_ios.relay.schedules.flat_axes import extents_of, flat_suffix, reads_of
from tvm_ios.relay.schedules.whole_vectors import mark

__all__ = ["schedule_element_wise"]

ENOUGH_TASKS = 64
"""Iterations of a parallel loop that lanes can share evenly."""
FEW_TASKS = 8
"""Outer iterations below which lanes share the inner loop instead, if it is long."""
LONG = 4096
"""Elements of a loop that is worth being shared."""


def schedule_element_wise(outs: list[te.Tensor]) -> te.Schedule | None:
    """Schedule of the outputs of injective operators; None where no loop is over memory."""
    counts = [_flat_axes(out, [other for other in outs if other is not out]) for out in outs]
    if 0 in counts:
        return None
    schedule = te.create_schedule([out.op for out in outs])
    te.schedule.AutoInlineInjective(schedule)
    for out, count in zip(outs, counts, strict=True):
        _schedule(schedule[out], count)
    return schedule


def _flat_axes(out: te.Tensor, others: list[te.Tensor]) -> int:
    """Number of last axes of an output that are one loop over memory, 0 if none is."""
    extents = extents_of(out.shape)
    if not isinstance(out.op, te.ComputeOp) or not extents or 0 in extents:
        return 0
    reads = reads_of(out.op, others)
    return 0 if reads is None else flat_suffix(out.op.axis, reads)


def _schedule(stage: te.Stage, count: int) -> None:
    axes = list(stage.op.axis)
    extents = [int(axis.dom.extent) for axis in axes]
    inner = stage.fuse(*axes[-count:])
    mark(stage, inner)
    outer = math.prod(extents[:-count])
    if outer < FEW_TASKS and (outer == 1 or math.prod(extents[-count:]) >= LONG):
        stage.parallel(inner)
        return
    # Not all of them: the place of a loop in a fused one has to be divided out again.
    tasks = 1
    leading = []
    for axis, extent in zip(axes[:-count], extents, strict=False):
        if tasks >= ENOUGH_TASKS:
            break
        leading.append(axis)
        tasks *= extent
    stage.parallel(stage.fuse(*leading))
