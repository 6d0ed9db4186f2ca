"""Intermediate rows of a kernel, kept where its result goes.

Goes behind the loops, for a marked block. TVM allocates more than a kilobyte with each iteration.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tvm_ios.relax.schedules.tiles import loads_of, substituted

__all__ = ["MARK", "with_rows_in_place"]

MARK = "tvm_ios_in_place"
"""Annotation of the last block that writes a row, of which no other block reads another row."""


def with_rows_in_place(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    """Kernel in which a marked block overwrites an array that it reads where it writes."""
    realized, stores = function.body, []

    def of_marked(block: s_tir.SBlock) -> None:
        if MARK in block.annotations:
            stores.append(block.body)

    tvm_ffi.structural_walk(realized, (s_tir.SBlock, of_marked))
    kept = [each for store in stores for each in realized.block.alloc_buffers if _fits(each, store)]
    if not kept:
        return function
    block = realized.block
    rest = [each for each in block.alloc_buffers if not each.same_as(kept[0])]
    root = s_tir.SBlock([], [], [], block.name_hint, block.body, alloc_buffers=rest)
    body = s_tir.SBlockRealize([], True, root)
    return function.with_body(substituted(body, [(kept[0], stores[0].buffer)]))


def _fits(kept: tirx.Buffer, store: tirx.BufferStore) -> bool:
    """True if a store reads an array where it writes another one of the same kind."""
    loads = loads_of(store.value)
    places = [list(load.indices) for load in loads if load.source.same_as(kept)]
    one, other = ([str(each.ty.dtype), *each.ty.shape] for each in (kept, store.buffer))
    return (
        bool(places)
        and tvm_ffi.structural_equal(one, other)
        and all(tvm_ffi.structural_equal(place, list(store.indices)) for place in places)
    )
