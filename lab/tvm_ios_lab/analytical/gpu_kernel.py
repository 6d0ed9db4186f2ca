"""Time of one kernel on a GPU that is otherwise idle, and its share of each resource.

Occupancy and roofline: thread blocks from outputs and a tile, blocks that fit a multiprocessor at
once, waves of blocks with a tail; against that the bytes that pass the multiprocessors' ports, the
L2 cache and the memory. The largest counts. Of the tiles the fastest is taken, as a library does.

Volkov, "Understanding Latency Hiding on GPUs" (2016) is where the share of a multiprocessor that
few warps reach comes from; a tile's share of multiply-adds among its instructions is counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from tvm_ios_lab.analytical.gpu import GPU
from tvm_ios_lab.analytical.gpu_work import FLOAT_BYTES, KernelWork

__all__ = ["RESOURCES", "KernelTime", "Kernels", "kernel_time"]

RESOURCES = ("block slots", "arithmetic", "L2", "memory")
"""Resources that kernels share when they run at the same time."""

ACHIEVABLE_ARITHMETIC = 0.7
"""Share of the multiply-adds that the instructions of a tile leave room for; index arithmetic,
barriers and bank conflicts take the rest. Dense convolutions of a good library reach 0.5 to 0.8."""
ACHIEVABLE_BANDWIDTH = 0.8
"""Share of what L2 and memory could move."""
PORT_BYTES_PER_CYCLE = 64
"""Bytes a cycle between a multiprocessor and the L2 cache."""
SCHEDULERS = 4
"""Schedulers of a multiprocessor; each needs at least one warp, or two for 128 lanes."""
LATENCY = 8
"""Independent multiply-adds that a warp needs to hide its latencies from its scheduler."""
LOAD_LANES = 32
"""Loads that a multiprocessor starts in a cycle."""
STREAM_BLOCK = 256
"""Threads, and outputs, of a block of a stream."""
FILL_NS = 1000
"""A kernel's first bytes travel from memory to its registers, its last ones back."""
STEP = 8
"""Depth of a tile in shared memory; there are two at a time."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """Outputs of one thread block, and how its threads share them."""

    rows: int
    columns: int
    threads: int
    accumulators: int
    """Outputs, or parts of them, that a thread keeps in registers. Where all threads together have
    more than the tile has outputs, the depth is sliced between them."""

    @property
    def share(self) -> float:
        """Multiply-adds among the instructions of a thread, which loads two edges for each step."""
        return self.accumulators / (self.accumulators + math.sqrt(self.accumulators) / 2 + 3)

    def reach(self, gpu: GPU) -> float:
        """Share of a multiprocessor's speed that one block reaches by itself; may exceed 1."""
        needed = SCHEDULERS * (1 + LATENCY / self.accumulators) * gpu.lanes / 64
        return self.threads / 32 / needed

    def resident_blocks(self, gpu: GPU) -> int:
        """Blocks that fit one multiprocessor."""
        registers = 32 + 2 * self.accumulators
        shared_bytes = 2 * STEP * FLOAT_BYTES * (self.rows + self.columns)
        return max(
            1,
            min(
                gpu.max_blocks,
                gpu.max_threads // self.threads,
                gpu.registers // (registers * self.threads),
                gpu.shared_bytes // shared_bytes,
            ),
        )


class Kernels(Enum):
    """Whose kernels: which tiles they have."""

    LIBRARY = "library"
    """A few large tiles, as the float32 kernels of cuDNN 7 have: 128 outputs by 32, 64 or 128."""
    TUNED = "tuned"
    """Tiles of any size, as a tuner would find them."""

    @property
    def tiles(self) -> tuple[_Tile, ...]:
        """Tiles that a product may be cut into."""
        return _LIBRARY_TILES if self is Kernels.LIBRARY else _LIBRARY_TILES + _SMALL_TILES


_LIBRARY_TILES = tuple(
    _Tile(rows, columns, threads=256, accumulators=64)
    for rows, columns in ((128, 128), (128, 64), (64, 128), (128, 32), (32, 128))
)
_SMALL_TILES = tuple(
    _Tile(rows, columns, threads, rows * columns // threads)
    for rows, columns, threads in (
        (64, 64, 64),
        (64, 64, 128),
        (64, 64, 256),
        (64, 32, 64),
        (64, 32, 128),
        (32, 64, 64),
        (32, 64, 128),
        (32, 32, 64),
        (32, 32, 128),
        (32, 16, 64),
        (16, 32, 64),
    )
)


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Time of one kernel alone on a GPU, in nanoseconds, without its launch."""

    fill_ns: float
    """Time before the kernel takes anything from others."""
    busy_ns: float
    demand_ns: tuple[float, ...]
    """Time for each of :data:`RESOURCES` if nothing but that resource limited the kernel; never
    more than ``busy_ns``."""
    blocks: int

    @property
    def alone_ns(self) -> float:
        """Time from start to end."""
        return self.fill_ns + self.busy_ns


def kernel_time(
    work: KernelWork,
    gpu: GPU,
    *,
    kernels: Kernels = Kernels.TUNED,
    weights_in_l2: bool = False,
) -> KernelTime:
    """The time of a kernel on an idle GPU.

    Activations come from, and go to, the L2 cache if they fit into it, since other kernels have
    just touched them. Weights come from memory.

    Parameters
    ----------
    weights_in_l2
        The whole model fits the L2 cache, so weights are there from the run before.
    """
    if work.matrix_product:
        candidates = [_product_time(work, gpu, tile, weights_in_l2) for tile in kernels.tiles]
        return min(candidates, key=lambda time: time.busy_ns)
    return _stream_time(work, gpu, weights_in_l2)


def _product_time(work: KernelWork, gpu: GPU, tile: _Tile, weights_in_l2: bool) -> KernelTime:
    blocks = -(-work.rows // tile.rows) * -(-work.columns // tile.columns)
    lanes = tile.share * ACHIEVABLE_ARITHMETIC * gpu.lanes
    block_bytes = FLOAT_BYTES * (tile.rows + tile.columns) * work.depth
    grid = _Grid(
        blocks=blocks,
        resident=tile.resident_blocks(gpu),
        block_ns=tile.rows * tile.columns * work.depth / (lanes * gpu.cycles_per_ns),
        reach=tile.reach(gpu),
        block_bytes=block_bytes,
        moved_bytes=max(blocks * block_bytes, work.activation_bytes + work.weight_bytes),
    )
    return _time(work, gpu, grid, weights_in_l2)


def _stream_time(work: KernelWork, gpu: GPU, weights_in_l2: bool) -> KernelTime:
    # Every multiply-add waits for a load.
    lane_ns = max(1.0, work.depth) / (LOAD_LANES * gpu.cycles_per_ns)
    grid = _Grid(
        blocks=-(-work.outputs // STREAM_BLOCK),
        resident=min(gpu.max_blocks, gpu.max_threads // STREAM_BLOCK),
        block_ns=STREAM_BLOCK * lane_ns,
        reach=2 * STREAM_BLOCK / gpu.max_threads,
        block_bytes=work.activation_bytes * min(1.0, STREAM_BLOCK / work.outputs),
        moved_bytes=work.activation_bytes,
    )
    return _time(work, gpu, grid, weights_in_l2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grid:
    """The thread blocks of a kernel."""

    blocks: int
    resident: int
    """Blocks that fit one multiprocessor."""
    block_ns: float
    """Time of one block at the full speed of a multiprocessor."""
    reach: float
    """Share of that speed that one block reaches by itself."""
    block_bytes: float
    """Bytes that pass the port of a multiprocessor for one block."""
    moved_bytes: float
    """Bytes that pass the L2 cache for all blocks."""

    def waves_ns(self, gpu: GPU) -> tuple[float, float]:
        """Time of the busiest multiprocessor, and the part of it that all block slots would take.

        A multiprocessor with so few blocks that they reach only a part of its speed takes as long
        as for the blocks that would fill it.
        """
        slots = gpu.multiprocessors * self.resident
        full, rest = divmod(self.blocks, slots)
        wave = max(float(self.resident), 1 / self.reach)
        tail = max(float(-(-rest // gpu.multiprocessors)), 1 / self.reach) if rest else 0.0
        return self.block_ns * (full * wave + tail), self.block_ns * (
            full * wave + tail * rest / slots
        )


def _time(work: KernelWork, gpu: GPU, grid: _Grid, weights_in_l2: bool) -> KernelTime:
    cycles = gpu.cycles_per_ns
    waves_ns, slots_ns = grid.waves_ns(gpu)
    arithmetic_ns = grid.blocks * grid.block_ns / gpu.multiprocessors
    port_bytes = min(grid.moved_bytes, grid.block_bytes * -(-grid.blocks // gpu.multiprocessors))
    l2_ns = grid.moved_bytes / (gpu.l2_bytes_per_cycle * cycles * ACHIEVABLE_BANDWIDTH)
    memory_bytes = 0 if work.activation_bytes <= gpu.l2_bytes else work.activation_bytes
    memory_bytes += 0 if weights_in_l2 else work.weight_bytes
    memory_ns = memory_bytes / (gpu.memory_gb_per_s * ACHIEVABLE_BANDWIDTH)
    busy_ns = max(waves_ns, port_bytes / (PORT_BYTES_PER_CYCLE * cycles), l2_ns, memory_ns)
    return KernelTime(
        fill_ns=FILL_NS,
        busy_ns=busy_ns,
        demand_ns=(busy_ns * slots_ns / waves_ns, arithmetic_ns, l2_ns, memory_ns),
        blocks=grid.blocks,
    )
