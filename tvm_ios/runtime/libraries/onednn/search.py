"""Search of a call's fastest number of parts on this processor's lanes: once, never in a run."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from ctypes import c_int32, c_int64, c_void_p
from dataclasses import dataclass
from functools import partial

from tvm_ios.measure.machine_mode import ModeWatch
from tvm_ios.measure.sampling import Cell, MeasureOptions, sample
from tvm_ios.runtime.base.host_memory import allocate_aligned
from tvm_ios.runtime.base.lane_pool import LanePool, LaneProgram
from tvm_ios.runtime.base.native_runtime import NativeLaunch
from tvm_ios.runtime.base.tvm_abi import TENSOR_CODE, DLTensor
from tvm_ios.runtime.libraries.onednn.call import OnednnCall
from tvm_ios.runtime.libraries.onednn.cuts import Counts, is_spread
from tvm_ios.runtime.libraries.onednn.native_calls import OnednnPreparedCall
from tvm_ios.runtime.libraries.onednn.tensors import FLOAT_BYTES, OnednnTensor

__all__ = ["TimedLaunch", "choose", "fastest_counts", "least_times_ns"]

TIMING = MeasureOptions(repeat=5, max_repeat=5, min_repeat_ms=2.0)
"""Options of the timings of every number of parts, by turns, of which the best counts."""
GAIN = 0.97
"""Share of the time of fewer parts that more parts have to stay below."""
SPREAD_GAIN = 0.9
"""Share of the time of parts by rows that parts by spread channels have to stay below: the next
operator reads half of them from the other lane's cache, which is not timed here."""
CPU_DEVICE = (1, 0)


@dataclass(frozen=True, slots=True)
class TimedLaunch:
    """A prepared call on memory of its own, as a program of a pool of lanes."""

    program: LaneProgram
    kept: object


def fastest_counts(
    pool: LanePool,
    call: OnednnCall,
    ways: Mapping[Counts, OnednnPreparedCall],
) -> Counts:
    """Numbers of parts with which a call is fastest on all lanes of a pool.

    ``ways`` has the prepared call by numbers of parts, the fewest first.
    """
    if len(ways) == 1:
        return next(iter(ways))
    best_ns = least_times_ns(pool, call, ways)
    return choose(best_ns, SPREAD_GAIN if is_spread(call) else GAIN)


def least_times_ns(
    pool: LanePool, call: OnednnCall, ways: Mapping[Counts, OnednnPreparedCall]
) -> dict[Counts, float]:
    """Least time of a call in nanoseconds by numbers of parts, on all lanes of a pool, by turns."""
    memory = _Memory(call)
    launches = {counts: _launch(pool, memory, prepared) for counts, prepared in ways.items()}
    cells = {
        counts: Cell(partial(pool.time_ns, launch.program), TIMING.number)
        for counts, launch in launches.items()
    }
    # Nobody waits for a better mode of the machine: all numbers of parts are timed in the same one.
    sample(list(cells.values()), TIMING, ModeWatch(lambda: 0.0, TIMING.mode))
    return {counts: cell.least_ns for counts, cell in cells.items()}


def choose(best_ns: Mapping[Counts, float], channels_gain: float) -> Counts:
    """Numbers of parts with the best time; more parts only where they gain enough.

    ``channels_gain`` is the share of the time of parts by rows that parts by channels have to stay
    below.
    """
    chosen = next(iter(best_ns))
    for counts, time_ns in best_ns.items():
        by_channels = counts[1] > 1 and chosen[1] == 1
        if time_ns < (channels_gain if by_channels else GAIN) * best_ns[chosen]:
            chosen = counts
    return chosen


class _Memory:
    """Tensors of a call, filled with small numbers."""

    def __init__(self, call: OnednnCall) -> None:
        by_position = {tensor.position: tensor for tensor in call.inputs}
        ordered = [by_position[position] for position in sorted(by_position, key=_number)]
        self.tensors = [self._tensor(tensor) for tensor in (*ordered, call.result)]
        addresses = [ctypes.addressof(tensor) for tensor, _ in self.tensors]
        self.arguments = (c_void_p * len(addresses))(*addresses)
        self.codes = (c_int32 * len(addresses))(*[TENSOR_CODE] * len(addresses))

    def _tensor(self, tensor: OnednnTensor) -> tuple[DLTensor, object]:
        size = math.prod(tensor.shape)
        kept, address = allocate_aligned(size * FLOAT_BYTES)
        # Never zeros: they would draw another power, and hide a product that is skipped.
        period = (ctypes.c_float * 61)(*[(index - 30) / 64 for index in range(61)])
        for begin in range(0, size, 61):
            count = min(61, size - begin)
            ctypes.memmove(address + begin * FLOAT_BYTES, period, count * FLOAT_BYTES)
        extents = (c_int64 * len(tensor.shape))(*tensor.shape)
        made = DLTensor()
        made.describe("float32", len(tensor.shape), ctypes.addressof(extents), CPU_DEVICE)
        made.data = address
        return made, (kept, extents)


def _number(position: int | None) -> int:
    return -1 if position is None else position


def _launch(pool: LanePool, memory: _Memory, prepared: OnednnPreparedCall) -> TimedLaunch:
    native = NativeLaunch(
        kernel=prepared.function,
        arguments=ctypes.addressof(memory.arguments),
        type_codes=ctypes.addressof(memory.codes),
        resource=prepared.resource,
        num_arguments=len(memory.tensors),
        serial=0,
    )
    program = pool.program([[ctypes.addressof(native)]], [[]])
    return TimedLaunch(program, (native, memory, prepared))
