"""Schedule of element-wise kernels: loops over flat axes are one, in whole vectors.

TVM's own vectorises the last axis only: where its extent is no multiple of a vector, each element
asks whether it exists; where shapes change inside the kernel, each asks where it came from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import te, tir

from tvm_ios.kernels.loops import ENOUGH_TASKS
from tvm_ios.relay.row_kernels.tensors import stages_of
from tvm_ios.relay.schedules.flat_axes import (
    Tile,
    extents_of,
    flat_suffix,
    reads_of,
    transposed_suffix,
)
from tvm_ios.relay.schedules.patterns import LANES, Pattern, pattern_suffix
from tvm_ios.relay.schedules.whole_vectors import mark

__all__ = ["HELD", "schedule_element_wise"]

HELD = "tvm_ios_held"
"""Attribute of computations whose elements are read often enough to have memory of their own."""

FEW_TASKS = 4
"""Outer iterations below which lanes share the inner loop instead, if it is long."""
LONG = 4096
"""Elements of a loop that is worth being shared."""
TILED = ("float32", "int32", "uint32")
"""Types that are transposed in registers."""


def schedule_element_wise(outs: te.Tensor | Sequence[te.Tensor]) -> te.Schedule | None:
    """Schedule of the outputs of injective operators; None where no loop is over memory.

    What is :data:`HELD` has memory of its own.
    """
    outs = [outs] if isinstance(outs, te.Tensor) else list(outs)
    held = _held_behind(outs)
    made = [*outs, *held]
    loops = [_loops(out, [other for other in made if other is not out]) for out in made]
    # To gather elements takes less time than to compute for each what is held.
    if None in loops or not (held or all(loops)):
        return None
    schedule = te.create_schedule([out.op for out in outs])
    te.schedule.AutoInlineInjective(schedule)
    for stage in held:
        schedule[stage].compute_root()
    for out, found in zip(made, loops, strict=True):
        if isinstance(found, Tile):
            _schedule_tiles(schedule[out], found)
        elif isinstance(found, Pattern):
            _schedule_rows(schedule[out], found.axes, found.period)
        elif found is not None:
            _schedule_rows(schedule[out], found)
    return schedule


def _held_behind(outs: list[te.Tensor]) -> list[te.Tensor]:
    stages = {stage.op: stage for out in outs for stage in stages_of(out)}
    return [stage for stage in stages.values() if HELD in (stage.op.attrs or ())]


def _loops(out: te.Tensor, others: list[te.Tensor]) -> Tile | Pattern | int | None:
    """Number of last axes of an output that are one loop over memory, or two as a tile.

    None where it is not known.
    """
    extents = extents_of(out.shape)
    if not isinstance(out.op, te.ComputeOp) or not extents or 0 in extents:
        return None
    reads = reads_of(out.op, others)
    if reads is None:
        return None
    flat = flat_suffix(out.op.axis, reads, segments=True)
    axes = out.op.axis
    is_long = math.prod(extents[len(axes) - flat :]) >= LANES
    if out.dtype not in TILED or is_long:
        return flat
    tile = None if flat else transposed_suffix(axes, reads)
    return tile or pattern_suffix(axes, reads) or flat


def _schedule_rows(stage: te.Stage, flat: int, period: int = 0) -> None:
    axes = list(stage.op.axis)
    count = max(flat, 1)
    inner = stage.fuse(*axes[-count:])
    if flat or stage.is_output:
        # LLVM gathers faster by itself, but has no vector mathematics for what an output does then.
        mark(stage, inner, period)
    if not stage.is_output and math.prod(map(_extent, axes)) < LONG:
        return
    elements = math.prod(_extent(axis) for axis in axes[-count:])
    outer = [(axis, _extent(axis)) for axis in axes[:-count]]
    if not _shares_outer(outer, elements):
        stage.parallel(inner)
        return
    _share(stage, outer)


def _schedule_tiles(stage: te.Stage, tile: Tile) -> None:
    axes = list(stage.op.axis)
    begin = len(axes) - tile.lanes - tile.rows
    elements = math.prod(_extent(axis) for axis in axes[begin:])
    outer = [(axis, _extent(axis)) for axis in axes[:begin]]
    rows = stage.fuse(*axes[begin : -tile.lanes])
    lanes = stage.fuse(*axes[-tile.lanes :])
    if tile.split:
        part, rows = stage.split(rows, factor=tile.split)
        outer.append((part, _extent(axes[begin]) // tile.split))
    stage.reorder(*(axis for axis, _ in outer), rows, lanes)
    mark(stage, rows)
    if not tile.split and not _shares_outer(outer, elements):
        stage.parallel(rows)
        return
    _share(stage, outer)


def _shares_outer(outer: list[tuple[tir.IterVar, int]], elements: int) -> bool:
    """True if lanes share outer loops rather than the inner one with so many elements."""
    tasks = math.prod(extent for _, extent in outer)
    return tasks >= FEW_TASKS or (tasks > 1 and elements < LONG)


def _share(stage: te.Stage, outer: list[tuple[tir.IterVar, int]]) -> None:
    """Let lanes share the first outer loops."""
    # Not all of them: the place of a loop in a fused one has to be divided out again.
    tasks = 1
    leading = []
    for axis, extent in outer:
        if tasks >= ENOUGH_TASKS:
            break
        leading.append(axis)
        tasks *= extent
    stage.parallel(stage.fuse(*leading))


def _extent(axis: tir.IterVar) -> int:
    return int(axis.dom.extent)
