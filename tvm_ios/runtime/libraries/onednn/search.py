"""Search of a call's fastest number of parts on this processor's lanes: once, never in a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod

from tvm_ios.measure.machine_mode import ModeWatch
from tvm_ios.measure.sampling import Cell, MeasureOptions, sample
from tvm_ios.plan.plan import Buffer, BufferKind, ExecutionPlan, Launch, Tensor
from tvm_ios.runtime.base.lane_pool import LanePool
from tvm_ios.runtime.base.loaded_plan import Kernel
from tvm_ios.runtime.libraries.onednn.call import OnednnCall
from tvm_ios.runtime.libraries.onednn.cuts import Counts, is_spread
from tvm_ios.runtime.libraries.onednn.native_calls import OnednnPreparedCall
from tvm_ios.runtime.libraries.onednn.tensors import DATA_TYPES
from tvm_ios.runtime.libraries.processor import Processor

__all__ = ["choose", "fastest_counts", "least_times_ns", "reading_ns"]

TIMING = MeasureOptions(repeat=6, max_repeat=6, min_repeat_ms=0.4)
"""Options of the timings of every number of parts, by turns, of which the best counts: so many
short ones say more than a few long ones."""
LONG_NS = 4_000_000
"""Nanoseconds of a call from which on fewer timings do: others disturb each of them alike."""
FEW = 2
"""Timings of long calls."""
FAR_SLOWER = 1.3
"""Ratio to another number of parts from which on one is not timed to the end."""
GAIN = 0.97
"""Share of the time of fewer parts that more parts have to stay below."""
SPREAD_GAIN = 0.9
"""Share of the time of parts by rows that parts by spread channels have to stay below: the next
operator reads half of them from the other lane's cache, which is not timed here."""
WEIGHT_BYTES_PER_NS = 40
"""Bytes of constant weights that a lane reads in a nanosecond from beyond its own caches. Timings
find them there, as they repeat one call; a run of a network does not."""


def fastest_counts(
    processor: Processor,
    pool: LanePool,
    call: OnednnCall,
    ways: Mapping[Counts, OnednnPreparedCall],
) -> tuple[Counts, float]:
    """Numbers of parts with which a call is fastest on all lanes of a pool, and its nanoseconds.

    ``ways`` has the prepared call by numbers of parts, the fewest first.
    """
    best_ns = least_times_ns(processor, pool, call, ways)
    in_network_ns = {
        counts: time_ns + reading_ns(call, counts, pool.lanes)
        for counts, time_ns in best_ns.items()
    }
    counts = choose(in_network_ns, SPREAD_GAIN if is_spread(call) else GAIN)
    return counts, best_ns[counts]


def least_times_ns(
    processor: Processor,
    pool: LanePool,
    call: OnednnCall,
    ways: Mapping[Counts, OnednnPreparedCall],
) -> dict[Counts, float]:
    """Least time of a call in nanoseconds by numbers of parts, on all lanes of a pool, by turns."""
    plan = _plan_of(call, len(ways))
    loaded, _memory = processor.load(plan, {})  # which lives as long as the cells
    loaded.bind(Kernel(prepared.function, prepared.resource) for prepared in ways.values())
    cells: dict[Counts, Cell] = {}

    def limit_ns() -> float:
        return FAR_SLOWER * min(cell.least_ns for cell in cells.values())

    for number, counts in enumerate(ways):
        program = pool.program([[loaded.launch(number)]], [[]])
        run_ns = partial(pool.time_ns, program)
        cells[counts] = Cell(run_ns, TIMING.number, limit_ns=limit_ns)
    first = next(iter(cells.values()))
    timing = TIMING
    if first.time_ns(1) > LONG_NS:
        timing = replace(TIMING, warmup=1, repeat=FEW, max_repeat=FEW)
    # Nobody waits for a better mode of the machine: all numbers of parts are timed in the same one.
    sample(list(cells.values()), timing, ModeWatch(lambda: 0.0, timing.mode))
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


def reading_ns(call: OnednnCall, counts: Counts, lanes: int) -> float:
    """Nanoseconds that a lane takes to read its constant weights, by numbers of parts.

    Parts by channels have weights of their own; all others read all of them.
    """
    weight = call.weight
    if weight is None or not weight.constant:
        return 0.0
    batches, channels, rows = counts
    shares = min(channels, lanes) if batches * rows == 1 else 1
    size_bytes = prod(weight.shape) * DATA_TYPES[weight.dtype].size_bytes
    return size_bytes / shares / WEIGHT_BYTES_PER_NS


def _plan_of(call: OnednnCall, ways: int) -> ExecutionPlan:
    """A plan with as many launches of a call, all over the same tensors."""
    by_position = {tensor.position: tensor for tensor in call.inputs if tensor.position is not None}
    ordered = [*(by_position[position] for position in sorted(by_position)), call.result]
    tensors = tuple(
        Tensor(buffer=number, byte_offset=0, shape=tensor.shape, dtype=tensor.dtype)
        for number, tensor in enumerate(ordered)
    )
    numbers = range(len(tensors))
    launch = Launch(
        operator="",
        operator_index=0,
        kernel="",
        inputs=tuple(numbers[:-1]),
        outputs=tuple(numbers[-1:]),
    )
    return ExecutionPlan(
        lanes=1,
        buffers=tuple(
            Buffer(kind=BufferKind.OUTPUT, size_bytes=tensor.size_bytes) for tensor in tensors
        ),
        tensors=tensors,
        launches=(launch,) * ways,
        groups=(),
        inputs=(),
        outputs=tuple(numbers),
        arena_bytes=0,
    )
