"""Debug data for the native executor: which bytes to overwrite before and after each launch."""

from __future__ import annotations

import ctypes
from typing import Any

from tvm_ios.plan.plan import BufferKind, ExecutionPlan
from tvm_ios.runtime.base.kernel_arguments import TensorTable
from tvm_ios.runtime.base.native_runtime import NativePoison, NativeRange

__all__ = ["poison_data"]


def poison_data(plan: ExecutionPlan, table: TensorTable) -> NativePoison:
    """Overwrite outputs before their launch, arena buffers after the last launch to touch them.

    The addresses are those of the table now: data made before a tensor was moved are wrong.
    """
    kinds = [buffer.kind for buffer in plan.buffers]
    arena = [number for number, kind in enumerate(kinds) if kind is BufferKind.ARENA]
    number_of = {buffer: number for number, buffer in enumerate(arena)}
    base = {
        tensor.buffer: table.data(index) - tensor.byte_offset
        for index, tensor in enumerate(plan.tensors)
    }
    ranges, range_rows, touched, touched_rows = [], [0], [], [0]
    accesses = [0] * len(arena)
    for launch in plan.launches:
        ranges += [(table.data(index), plan.tensors[index].size_bytes) for index in launch.outputs]
        used = {plan.tensors[index].buffer for index in (*launch.inputs, *launch.outputs)}
        for buffer in sorted(used & number_of.keys()):
            touched.append(number_of[buffer])
            accesses[number_of[buffer]] += 1
        range_rows.append(len(ranges))
        touched_rows.append(len(touched))
    whole = [(base[buffer], plan.buffers[buffer].size_bytes) for buffer in arena]
    kept: tuple[ctypes.Array[Any], ...] = (
        _integers(range_rows),
        _ranges(ranges),
        _integers(touched_rows),
        _integers(touched),
        _ranges(whole),
        _integers(accesses),
    )
    poison = NativePoison(*[ctypes.addressof(part) for part in kept], len(arena))
    # The structure has addresses only, which keep nothing alive.
    poison.kept = kept
    return poison


def _integers(values: list[int]) -> ctypes.Array[ctypes.c_int32]:
    return (ctypes.c_int32 * (len(values) or 1))(*values)


def _ranges(values: list[tuple[int, int]]) -> ctypes.Array[NativeRange]:
    return (NativeRange * (len(values) or 1))(*[NativeRange(*value) for value in values])
