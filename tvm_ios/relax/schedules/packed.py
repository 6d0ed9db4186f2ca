"""Loops of products of few rows by packed weights of bytes, which are those of Relay."""

from __future__ import annotations

import math
from dataclasses import fields

import tvm
from tvm import s_tir, tirx
from tvm.s_tir.dlight import normalize_prim_func
from tvm.tirx import Expr as Value

from tvm_ios.kernels.loops import elsewhere, placed
from tvm_ios.kernels.packed_products import Packing, Product, tile_for
from tvm_ios.relax.schedules.tiles import element_written, unfused, with_loops
from tvm_ios.relax.schedules.windows.sliding import written_after

__all__ = ["PACKED", "is_packed", "packed"]

PACKED = "tvm_ios_packed"
"""Attribute of kernels with such a product: packing, and positions of what it reads."""


def is_packed(kernel: tvm.tirx.PrimFunc | None) -> bool:
    """True for kernels of such a product."""
    return kernel is not None and PACKED in kernel.attrs


def packed(function: tvm.tirx.PrimFunc, target: tvm.target.Target) -> tvm.tirx.PrimFunc | None:
    """Kernel of a product by packed weights with its loops; None for other kernels."""
    if not is_packed(function):
        return None
    told = function.attrs[PACKED]
    schedule = s_tir.Schedule(function)
    blocks = normalize_prim_func(schedule) or []
    (at,) = (number for number, each in enumerate(blocks) if not each.is_injective())
    after = [each.block_rv for each in blocks[at + 1 :]]
    for each in (*(each.block_rv for each in blocks[:at]), *after[:-1]):
        schedule.compute_inline(each)
    store = schedule.get(blocks[at].block_rv).body
    results = [each for each in store.indices if isinstance(each, tirx.Var)]
    write, named = written_after(store, results, schedule.get(after[-1]) if after else None)

    rows = {
        name: function.params[int(told[name])]
        for name in ("data", "weight", "scales", "zeros")
        if name in told
    }
    flat = {
        name: elsewhere((math.prod(map(int, each.shape)),), str(each.dtype), name)
        for name, each in rows.items()
    }
    *above, inputs = map(int, rows["data"].shape)
    packing = Packing(**{each.name: int(told[each.name]) for each in fields(Packing)})

    def element(total: Value, row: Value, column: Value) -> tirx.Stmt:
        several = [extent for extent in above if extent > 1]
        indices = [*(unfused(row, several) if several else ()), column]
        places = list(zip(named, indices, strict=True))
        return element_written(write, store.buffer, total, places)

    product = Product(
        rows=math.prod(above),
        inputs=inputs,
        packing=packing,
        tile=tile_for(math.prod(above), packing.outputs, target),
        write=element,
        index=str(results[-1].ty.dtype),
        zeros=flat.pop("zeros", None),
        **flat,
    )
    body = product.statement()
    for name, buffer in (("zeros", product.zeros), *flat.items()):
        if buffer is not None:
            body = placed(buffer, rows[name].data, body)
    return with_loops(function, body)
