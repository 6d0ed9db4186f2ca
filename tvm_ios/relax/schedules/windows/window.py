"""Loops of sums whose rows lie in memory as those of their result.

Products, convolutions of one pixel or of groups, and windows that do not slide. A tile of rows,
each a piece of vectors, stays in registers while its sums are made; what follows (bias, activation)
is applied to the tile before it is written. Every element is summed in the order in which TVM sums
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import s_tir
from tvm.s_tir.dlight import normalize_prim_func

from tvm_ios.relax.schedules.tiles import LEAST_PARALLEL, divisor, extents_of, spread

__all__ = ["window"]

PIECE = 16
"""Elements of a row in a tile: longer pieces leave the registers."""
REGISTER_ROWS = {16: 8, 8: 4}
"""Rows of a tile, by the elements of a vector register; 2 for shorter ones."""


def window(schedule: s_tir.Schedule, lanes: int) -> bool:
    """Schedule a kernel with one such sum, for vectors of so many elements; False for others."""
    found = _only_sum(schedule)
    if found is None:
        return False
    loops = schedule.get_loops(found.main)
    extents = extents_of(schedule, loops)
    *rows, row = [loop for loop, kind in zip(loops, found.kinds, strict=True) if kind == "S"]
    summed = [loop for loop, kind in zip(loops, found.kinds, strict=True) if kind == "R"]
    _schedule_before(schedule, found.before)
    for block in found.after[:-1]:
        schedule.compute_inline(block)
    last = found.after[-1] if found.after else schedule.cache_write(found.main, 0, "global")
    outer, piece = _split(schedule, row, PIECE)
    tile = [piece]
    if rows:
        rows[0], inner = _split(schedule, rows[0], REGISTER_ROWS.get(lanes, 2))
        tile = [inner, piece]
    schedule.reorder(*rows, outer, *summed, *tile)
    schedule.reverse_compute_at(last, outer)
    # Loops of one iteration are none here: the last ones may be others than those of the tile.
    written = schedule.get_loops(last)[len(rows) + 1 :]
    for *unrolled, vector in filter(None, (tile, written)):
        schedule.vectorize(vector)
        for loop in unrolled:
            schedule.unroll(loop)
    if math.prod(extents) >= LEAST_PARALLEL:
        schedule.parallel(schedule.fuse(*rows) if len(rows) > 1 else [*rows, outer][0])
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
    places = [[_uses(piece.min, along) for piece in region.region] for region in block.reads]
    return any(place[-1] for place in places) and not any(any(place[:-1]) for place in places)


def _uses(expression: Any, variable: tvm.tirx.Var) -> bool:
    found = tvm.tirx.analysis.undefined_vars(expression, [])
    return any(each.same_as(variable) for each in found)


def _schedule_before(schedule: s_tir.Schedule, blocks: list[s_tir.schedule.SBlockRV]) -> None:
    """Schedule blocks that a sum reads: copies vanish, padding is written first."""
    for block in blocks:
        whole = schedule.get(block)
        shapes = [[int(n) for n in each.source.ty.shape] for each in (*whole.reads, *whole.writes)]
        if len(shapes) == 2 and shapes[0] == shapes[1]:
            schedule.compute_inline(block)
        else:
            spread(schedule, block)
