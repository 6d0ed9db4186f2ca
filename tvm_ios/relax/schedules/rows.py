"""Loops of kernels that sum along their rows: softmax, norms, means, sums and maxima.

Two rows stay in the nearest cache until all is done with them. They are summed in several vectors
of partial sums, since an addition waits for the one before; so sums are not in TVM's order.
"""

from __future__ import annotations

import math

from tvm import s_tir
from tvm.s_tir.dlight import SBlockInfo, normalize_prim_func
from tvm.s_tir.schedule import LoopRV as Loop
from tvm.s_tir.schedule import SBlockRV as Block

from tvm_ios.relax.schedules.arithmetic import calls_dear
from tvm_ios.relax.schedules.gathered import LANES, MARK
from tvm_ios.relax.schedules.in_place import MARK as IN_PLACE
from tvm_ios.relax.schedules.tiles import (
    LEAST_PARALLEL,
    divisor,
    extents_of,
    lies_together,
    uses,
    vectors_along,
)
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["rows"]

MOST_ROWS, NEAREST = 2, 4096
"""Most rows of which every step is taken before the next one, so that none waits for the sum of
another; and elements of such rows, which the nearest cache holds with what is made of them."""


def rows(schedule: s_tir.Schedule, lanes: int) -> bool:  # noqa: ARG001 - LLVM cuts vectors
    """Schedule a kernel whose sums all go along the same rows; False for others."""
    blocks = normalize_prim_func(schedule) or []
    sums = [each for each in blocks if not each.is_injective()]
    counts = {_rows_of(each) for each in sums}
    outputs = schedule.get_output_blocks(schedule.get_sblock("root"))
    if len(outputs) != 1 or len(counts) != 1 or counts <= {0} or not bits_may_change():
        return False
    (count,), last = counts, blocks[-1]
    number = math.prod(int(each.dom) for each in sums[0].iters[:count])
    # Where there is one row alone, no other block has a variable for it.
    count = count if number > 1 else 0
    extents = [[int(each.dom) for each in found.iters[:count]] for found in (*sums, last)]
    if any(each != extents[0] for each in extents):
        return False
    kept = [each for each in blocks[:-1] if not _is_cheap(schedule, each, count)]
    for each in blocks[:-1]:
        if each not in kept:
            schedule.compute_inline(each.block_rv)
    if not all(_lies_along(schedule.get(each.block_rv)) for each in sums):
        return False
    schedule.annotate(last.block_rv, IN_PLACE, 1)
    elements = max(math.prod(int(iteration.dom) for iteration in each.iters) for each in blocks)
    several = _several_rows(schedule, last.block_rv, count, NEAREST * number // elements)
    for each in reversed(kept):
        schedule.compute_at(each.block_rv, several)
    # Only whole reductions may be made parallel, so they are cut behind this.
    if elements >= LEAST_PARALLEL and number > 1:
        schedule.parallel(several)
    for each in (*kept, last):
        along = _loops_along(schedule, each.block_rv, count)
        if each in sums:
            _gather(schedule, each.block_rv, along)
        elif along:
            vectors_along(schedule, along[-1])
    return True


def _several_rows(schedule: s_tir.Schedule, block: Block, count: int, most: int) -> Loop:
    """Loop over so many rows at once as a block's loops over rows become."""
    if count == 0:
        return schedule.add_unit_loop((schedule.get_loops(block) or [block])[0])
    *outer, row = schedule.get_loops(block)[:count]
    together = divisor(extents_of(schedule, [row])[0], max(1, min(MOST_ROWS, most)))
    several = schedule.split(row, [None, together])[0] if together > 1 else row
    return schedule.fuse(*outer, several) if outer else several


def _loops_along(schedule: s_tir.Schedule, block: Block, count: int) -> list[Loop]:
    """Loops of a block along a row, after its loop over rows was put before them."""
    _, *inner = schedule.get_loops(block)
    if not inner:
        return []
    places = schedule.get(inner[-1]).body.iter_values[:count]
    rows = [
        loop for loop in inner if any(uses(place, schedule.get(loop).loop_var) for place in places)
    ]
    along = [loop for loop in inner if loop not in rows]
    schedule.reorder(*rows, *along)
    if len(along) > 1 and lies_together(schedule.get(block), len(along)):
        return [schedule.fuse(*along)]
    return along


def _rows_of(found: SBlockInfo) -> int:
    """Loops over rows of a sum, behind which are those along a row; 0 of any other sum."""
    kinds = "".join(each.kind for each in found.iters)
    rows = kinds.count("S")
    return rows if kinds == "S" * rows + "R" * (len(kinds) - rows) else 0


def _is_cheap(schedule: s_tir.Schedule, found: SBlockInfo, count: int) -> bool:
    """True if elements take less time to compute again than to keep."""
    block = schedule.get(found.block_rv)
    return found.is_injective() and len(found.iters) > count and not calls_dear(block.body)


def _lies_along(block: s_tir.SBlock) -> bool:
    """True if a sum goes along what it reads: its last variable is in the last place alone."""
    along = block.iter_vars[-1].var
    places = [[uses(piece.min, along) for piece in region.region] for region in block.reads]
    return any(place[-1] for place in places) and not any(any(place[:-1]) for place in places)


def _gather(schedule: s_tir.Schedule, block: Block, summed: list[Loop]) -> None:
    """Sum up what is left of a row, by :mod:`tvm_ios.relax.schedules.gathered` if it is much."""
    if extents_of(schedule, summed)[-1] >= 2 * LANES:
        schedule.decompose_reduction(block, summed[0])
        schedule.annotate(summed[-1], MARK, 1)
