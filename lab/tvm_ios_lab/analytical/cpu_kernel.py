"""Time of one kernel on some cores of a CPU that is otherwise idle.

A roofline for each core: multiply-adds of whole vectors against the bytes that come from its
caches, from those of other cores, or from memory. Kernels that are split over cores hand out their
tasks one by one and wait for the last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

from tvm_ios_lab.analytical.cpu import CPU
from tvm_ios_lab.analytical.gpu_work import KernelWork

__all__ = ["CpuKernel"]

ACHIEVABLE_ARITHMETIC = 0.7
"""Share of a core's multiply-adds that kernels of matrix products reach, as on GPUs."""
MOST_BYTES_MOVED = 65536
"""The cost of moving more between caches is hidden: prefetchers follow."""


@dataclass(frozen=True, slots=True)
class CpuKernel:
    """Kernel on one kind of CPU."""

    core_ns: float
    """Time on one core that has all data in its own caches, without the call."""
    tasks: int
    """Parts that it may be split into."""
    read_bytes: int
    """Activations that it reads and writes: what other cores may have in their caches."""
    memory_bytes: int
    """Bytes that come from memory."""

    @classmethod
    def make(cls, work: KernelWork, cpu: CPU, *, weights_in_l3: bool) -> CpuKernel:
        """A kernel on a CPU.

        Parameters
        ----------
        weights_in_l3
            The weights of the whole model fit the last cache, so they are there from the run
            before.
        """
        cycles = _cycles(work, cpu)
        resident = work.activation_bytes <= cpu.l3_bytes
        memory_bytes = 0 if resident else work.activation_bytes
        memory_bytes += 0 if weights_in_l3 else work.weight_bytes
        # What outgrows a core's own cache passes through the one behind it.
        passing = work.activation_bytes + work.weight_bytes
        far_bytes = passing if passing > cpu.l2_bytes else work.weight_bytes
        return cls(
            core_ns=max(cycles * 1000 / cpu.clock_mhz, far_bytes / cpu.l3_gb_per_s),
            tasks=_tasks(work, cpu),
            read_bytes=work.activation_bytes,
            memory_bytes=memory_bytes,
        )

    def on_lanes(self, cpu: CPU, lanes: int, *, away: float) -> float:
        """Nanoseconds on so many lanes.

        Parameters
        ----------
        away
            Share of what it reads and writes that other cores have in their caches, if one lane
            runs it. Where several do, each finds its own share in its own cache.
        """
        used = min(lanes, self.tasks)
        share = -(-self.tasks // used) / self.tasks
        moved_bytes = min(MOST_BYTES_MOVED, self.read_bytes / 2) * (
            away if used == 1 else (1 - 1 / used) / used
        )
        together_ns = 0.0 if used == 1 else 2 * cpu.signal_ns + used * cpu.hop_ns
        memory_ns = self.memory_bytes / min(cpu.memory_gb_per_s, used * cpu.core_gb_per_s)
        busy_ns = max(self.core_ns * share, memory_ns)
        return cpu.call_ns + together_ns + busy_ns + moved_bytes / 1024 * cpu.fetch_ns_per_kb

    def fastest(self, cpu: CPU, *, away: float) -> tuple[float, ...]:
        """Least nanoseconds on up to 1, 2, … lanes, not all of which need take part."""
        times_ns = (self.on_lanes(cpu, lanes, away=away) for lanes in range(1, cpu.cores + 1))
        return tuple(accumulate(times_ns, min))


def _cycles(work: KernelWork, cpu: CPU) -> float:
    if work.matrix_product:
        vectors = work.rows * -(-work.columns // cpu.simd_width) * work.depth
        return vectors / (cpu.fmas_per_cycle * ACHIEVABLE_ARITHMETIC)
    loads = math.ceil(work.outputs / cpu.simd_width) * max(1.0, work.depth)
    return loads / cpu.loads_per_cycle


def _tasks(work: KernelWork, cpu: CPU) -> int:
    """Rows of an image by vectors of channels, which is how TVM's kernels are split."""
    if work.matrix_product:
        return -(-work.columns // cpu.simd_width) * max(1, math.isqrt(work.rows))
    return max(1, math.isqrt(work.outputs // cpu.simd_width))
