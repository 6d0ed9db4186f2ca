"""Loops of sums whose rows lie in memory as those of their result: convolutions, pools, products.

A tile of rows, each a piece of vectors, stays in registers while its sums are made; what follows
(bias, activation) is applied to the tile before it is written. Every element is summed in the order
in which TVM sums it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm import s_tir, tirx
from tvm.s_tir.dlight import normalize_prim_func

from tvm_ios.relax.schedules.tiles import LEAST_PARALLEL, VECTOR, divisor, extents_of, spread, uses

__all__ = ["window"]

PIECE = 16
"""Elements of a row in a tile: longer pieces leave the registers."""
REGISTER_ROWS = {16: 8, 8: 4}
"""Rows of a tile, by the elements of a vector register; 2 for shorter ones."""
FAR = 1 << 16
"""Elements of padded images from which on each is padded where it is read, in memory of its own."""


def window(schedule: s_tir.Schedule, lanes: int) -> bool:
    """Schedule a kernel with one such sum, for vectors of so many elements; False for others."""
    found = _only_sum(schedule)
    if found is None:
        return False
    loops = schedule.get_loops(found.main)
    extents = extents_of(schedule, loops)
    *rows, row = [loop for loop, kind in zip(loops, found.kinds, strict=True) if kind == "S"]
    summed = [loop for loop, kind in zip(loops, found.kinds, strict=True) if kind == "R"]
    padded = [block for block in found.before if not _vanishes(schedule, block)]
    for block in found.after[:-1]:
        schedule.compute_inline(block)
    last = found.after[-1] if found.after else schedule.cache_write(found.main, 0, "global")
    apart = len(rows) > 1 and _reads_apart(schedule.get(found.main))
    (length,) = extents_of(schedule, [row])
    # Sums in vectors of odd lengths leave the registers.
    whole, most = math.gcd(length, PIECE), divisor(length, PIECE)
    outer, piece = _split(schedule, row, whole if most % 2 and whole >= PIECE // 2 else most)
    tile = [piece]
    if rows:
        near = _sharing_rows(schedule.get(found.main), found.kinds)
        rows[near], inner = _split(schedule, rows[near], REGISTER_ROWS.get(lanes, 2))
        tile = [inner, piece]
    schedule.reorder(*rows, outer, *summed, *tile)
    schedule.reverse_compute_at(last, outer)
    for *unrolled, vector in (tile, schedule.get_loops(last)[-len(tile) :]):
        schedule.vectorize(vector)
        for loop in unrolled:
            schedule.unroll(loop)
    for block in padded:
        if apart and math.prod(extents_of(schedule, schedule.get_loops(block))) > FAR:
            schedule.compute_at(block, rows[0])
    if math.prod(extents) >= LEAST_PARALLEL:
        together = rows[:1] if apart else rows or [outer]
        schedule.parallel(schedule.fuse(*together) if len(together) > 1 else together[0])
    for block in padded:
        _pad(schedule, block)
    # Only whole reductions may be made parallel, so this comes last.
    schedule.decompose_reduction(found.main, summed[0])
    return True


@dataclass(frozen=True, slots=True)
class _Sum:
    """The sum of a kernel, and what is computed before and after it."""

    before: list[s_tir.schedule.SBlockRV]
    main: s_tir.schedule.SBlockRV
    kinds: list[str]
    """Kind of each loop of the sum: ``S`` for one over its result, ``R`` for one that is summed."""
    after: list[s_tir.schedule.SBlockRV]


def _only_sum(schedule: s_tir.Schedule) -> _Sum | None:
    """The sum of a kernel that has no other, and one result with rows that lie as those read."""
    blocks = normalize_prim_func(schedule) or []
    sums = [at for at, each in enumerate(blocks) if not each.is_injective()]
    outputs = schedule.get_output_blocks(schedule.get_sblock("root"))
    if len(sums) != 1 or len(outputs) > 1:
        return None
    found, variables = blocks[sums[0]], [each.block_rv for each in blocks]
    kinds = [each.kind for each in found.iters]
    if {"S", "R"} != set(kinds) or not _has_rows(schedule.get(found.block_rv), kinds):
        return None
    return _Sum(variables[: sums[0]], found.block_rv, kinds, variables[sums[0] + 1 :])


def _split(
    schedule: s_tir.Schedule, loop: s_tir.schedule.LoopRV, most: int
) -> list[s_tir.schedule.LoopRV]:
    """Split a loop: an inner one of at most so many iterations, without a rest."""
    (extent,) = extents_of(schedule, [loop])
    return list(schedule.split(loop, [None, divisor(extent, most)]))


def _has_rows(block: s_tir.SBlock, kinds: list[str]) -> bool:
    """True if what is read lies along the last spatial axis, or does not depend on it."""
    variables = [each.var for each in block.iter_vars if int(each.dom.extent) != 1]
    if len(variables) != len(kinds):
        return False  # a sum of everything
    along = [var for var, kind in zip(variables, kinds, strict=True) if kind == "S"][-1]
    places = [
        [
            uses(piece.min, along)
            for piece, extent in zip(region.region, region.source.ty.shape, strict=True)
            if not (isinstance(extent, tirx.IntImm) and int(extent) == 1)
        ]
        or [False]
        for region in block.reads
    ]
    return any(place[-1] for place in places) and not any(any(place[:-1]) for place in places)


def _sharing_rows(block: s_tir.SBlock, kinds: list[str]) -> int:
    """Place of the loop over rows that read the same vectors; of the last one where none do."""
    variables = [each.var for each in block.iter_vars if int(each.dom.extent) != 1]
    *rows, along = [var for var, kind in zip(variables, kinds, strict=True) if kind == "S"]
    read = [[piece.min for piece in region.region] for region in block.reads]
    vectors = [places for places in read if any(uses(each, along) for each in places)]
    shared = [
        place
        for place, row in enumerate(rows)
        if any(not any(uses(each, row) for each in places) for places in vectors)
    ]
    return shared[-1] if shared else len(rows) - 1


def _reads_apart(block: s_tir.SBlock) -> bool:
    """True if results along the first axis have nothing in common: depthwise, pools."""
    first = next(each.var for each in block.iter_vars if int(each.dom.extent) != 1)
    return all(any(uses(piece.min, first) for piece in region.region) for region in block.reads)


def _vanishes(schedule: s_tir.Schedule, block: s_tir.schedule.SBlockRV) -> bool:
    """Compute a block that copies where it is read; False for one that pads."""
    whole = schedule.get(block)
    shapes = [[int(n) for n in each.source.ty.shape] for each in (*whole.reads, *whole.writes)]
    vanishes = len(shapes) == 2 and shapes[0] == shapes[1]
    if vanishes:
        schedule.compute_inline(block)
    return vanishes


def _pad(schedule: s_tir.Schedule, block: s_tir.schedule.SBlockRV) -> None:
    """Write padding and then what lies within, each image while it is in the nearest cache.

    A condition for each element would leave no vectors.
    """
    loops = schedule.get_loops(block)
    nested = any(schedule.get(loop).kind == tirx.ForKind.PARALLEL for loop in loops)
    extents = extents_of(schedule, loops)
    try:
        around = schedule.decompose_padding(block, loops[max(0, len(loops) - 2)])
    except s_tir.ScheduleError:
        if not nested:
            spread(schedule, block)
        return
    if math.prod(extents) >= LEAST_PARALLEL and len(loops) > 2 and not nested:
        schedule.parallel(schedule.fuse(*loops[:-2]))
    for each in (around, block):
        schedule.vectorize(_split(schedule, schedule.get_loops(each)[-1], VECTOR)[1])
