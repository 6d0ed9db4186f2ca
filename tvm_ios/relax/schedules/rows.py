"""Loops of kernels that sum along their rows: softmax, norms, means, sums and maxima.

A few rows stay in the nearest cache until all is done with them. They are summed side by side, in
several vectors of partial sums, since an addition waits for the one before; so sums are not in
TVM's order.
"""

from __future__ import annotations

import math

import tvm
from tvm import s_tir, tirx
from tvm.s_tir.dlight import SBlockInfo, normalize_prim_func
from tvm.s_tir.schedule import LoopRV as Loop
from tvm.s_tir.schedule import SBlockRV as Block

from tvm_ios.relax.schedules.arithmetic import calls_dear
from tvm_ios.relax.schedules.gathered import LEAST, MARK
from tvm_ios.relax.schedules.in_place import MARK as IN_PLACE
from tvm_ios.relax.schedules.tiles import (
    LEAST_PARALLEL,
    divisor,
    extents_of,
    lies_together,
    uses,
)
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["rows"]

MOST_ROWS, NEAREST = 8, 2048
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
    extents = [[int(each.dom) for each in found.iters[:count]] for found in sums]
    row_loops = _row_loops(schedule, last.block_rv, number)
    if any(each != extents[0] for each in extents) or row_loops is None:
        return False
    kept = [each for each in blocks[:-1] if not _is_cheap(schedule, each, count)]
    for each in blocks[:-1]:
        if each not in kept:
            schedule.compute_inline(each.block_rv)
    if not all(_lies_along(schedule.get(each.block_rv)) for each in sums):
        return False
    schedule.annotate(last.block_rv, IN_PLACE, 1)
    elements = max(math.prod(int(iteration.dom) for iteration in each.iters) for each in blocks)
    several, together = _several_rows(
        schedule, last.block_rv, row_loops, NEAREST * number // elements
    )
    for each in reversed(kept):
        schedule.compute_at(each.block_rv, several)
    if not all(_is_once(schedule, each) for each in sums):
        return False
    # Only whole reductions may be made parallel, so they are cut behind this.
    if elements >= LEAST_PARALLEL and number > 1:
        schedule.parallel(several)
    for each in (*kept, last):
        along = _loops_along(schedule, each.block_rv, count, together)
        if each in sums:
            _gather(schedule, each.block_rv, along)
        elif along:
            schedule.annotate(along[-1], MARK, 1)
    return True


def _row_loops(schedule: s_tir.Schedule, block: Block, number: int) -> list[Loop] | None:
    """Loops of a block over so many rows, of which one may be a part of an axis; None if none are.

    A group of channels is such a row of a normalised image.
    """
    found = []
    for loop in schedule.get_loops(block) if number > 1 else []:
        (extent,) = extents_of(schedule, [loop])
        if number % extent and extent % number:
            return None
        found.append(schedule.split(loop, [number, None])[0] if extent > number else loop)
        number //= min(number, extent)
        if number == 1:
            return found
    return None if number > 1 else found


def _several_rows(
    schedule: s_tir.Schedule, block: Block, loops: list[Loop], most: int
) -> tuple[Loop, int]:
    """Loop over several rows at once, which a block's loops over rows become, and how many."""
    if not loops:
        return schedule.add_unit_loop((schedule.get_loops(block) or [block])[0]), 1
    *outer, row = loops
    together = divisor(extents_of(schedule, [row])[0], max(1, min(MOST_ROWS, most)))
    several = schedule.split(row, [None, together])[0] if together > 1 else row
    return schedule.fuse(*outer, several) if outer else several, together


def _loops_along(schedule: s_tir.Schedule, block: Block, count: int, together: int) -> list[Loop]:
    """Loops of a block along a row, after a loop over rows was put before them.

    The rows that are taken together go inside, where what all of them read is read once, unless
    that takes more registers than there are.
    """
    _, *inner = schedule.get_loops(block)
    if not inner:
        return []
    places = schedule.get(inner[-1]).body.iter_values[:count]
    first = schedule.get(inner[0]).loop_var
    is_row = together > 1 and any(uses(place, first) for place in places)
    rows, along = (inner[:1], inner[1:]) if is_row else ([], list(inner))
    whole = [n for n in range(2, len(along) + 1) if lies_together(schedule.get(block), n)]
    if whole:
        along[-whole[-1] :] = [schedule.fuse(*along[-whole[-1] :])]
    is_short = not along or extents_of(schedule, along)[-1] < LEAST
    if rows and not is_short and not calls_dear(schedule.get(block).body):
        schedule.reorder(*along, *rows)
    return along


def _rows_of(found: SBlockInfo) -> int:
    """Loops over rows of a sum, behind which are those along a row; 0 of any other sum."""
    kinds = "".join(each.kind for each in found.iters)
    rows = kinds.count("S")
    return rows if kinds == "S" * rows + "R" * (len(kinds) - rows) else 0


def _is_cheap(schedule: s_tir.Schedule, found: SBlockInfo, count: int) -> bool:
    """True if elements take less time to compute again than to keep."""
    body = schedule.get(found.block_rv).body
    is_copy = isinstance(body, tirx.BufferStore) and isinstance(body.value, tvm.ir.TensorLoad)
    return found.is_injective() and (is_copy or (len(found.iters) > count and not calls_dear(body)))


def _is_once(schedule: s_tir.Schedule, found: SBlockInfo) -> bool:
    """True if no element of a block is computed again for another row of the result."""
    taken = math.prod(extents_of(schedule, schedule.get_loops(found.block_rv)))
    return taken == math.prod(int(each.dom) for each in found.iters)


def _lies_along(block: s_tir.SBlock) -> bool:
    """True if a sum goes along what it reads: its last variable is in the last place alone."""
    along = block.iter_vars[-1].var
    places = [[uses(piece.min, along) for piece in region.region] for region in block.reads]
    return any(place[-1] for place in places) and not any(any(place[:-1]) for place in places)


def _gather(schedule: s_tir.Schedule, block: Block, summed: list[Loop]) -> None:
    """Sum up what is left of a row, by :mod:`tvm_ios.relax.schedules.gathered` if it is much."""
    if extents_of(schedule, summed)[-1] >= LEAST:
        schedule.decompose_reduction(block, summed[0])
        schedule.annotate(summed[-1], MARK, 1)
