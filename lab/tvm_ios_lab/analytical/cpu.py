"""Descriptions of CPUs by their cores, for prices that are computed and not measured.

Widths, caches and clocks are the vendor's; what a hand-off between cores takes is typical of what
our executor measures, since no data sheet has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tvm_ios.support.whole_number import require_whole

__all__ = ["CPU", "MOST_CORES"]

MOST_CORES: Final = 96
"""Cores of the largest socket that is described."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CPU:
    """Cores of one socket; every core runs one lane."""

    title: str
    """Name for people."""
    source: str
    """Source of the numbers."""
    cores: int
    clock_mhz: int
    simd_width: int
    """Float32 values of a vector."""
    fmas_per_cycle: float
    """Vector multiply-adds that a core starts in a cycle."""
    loads_per_cycle: float
    """Vectors that a core loads from its first cache in a cycle."""
    l2_bytes: int
    """Second-level cache of a core."""
    l3_bytes: int
    """Third-level caches of all cores together."""
    l3_gb_per_s: float
    """GB/s that a core reads from its third-level cache."""
    memory_gb_per_s: float
    """GB/s that all cores read from memory together."""
    core_gb_per_s: float
    """GB/s that one core reads from memory at most."""
    call_ns: int
    """Nanoseconds to begin a kernel on a lane that is there already."""
    signal_ns: int
    """Nanoseconds until a lane learns what another one wrote, with the work that hangs on it."""
    hop_ns: int
    """Nanoseconds to move one cache line from core to core, which each claim of a task takes."""
    fetch_ns_per_kb: float
    """Nanoseconds to read 1 KB that lies in another core's cache."""

    @property
    def flops_per_ns(self) -> float:
        """Float32 throughput of one core; a multiply-add counts two."""
        return 2 * self.simd_width * self.fmas_per_cycle * self.clock_mhz / 1000

    def as_text(self) -> str:
        """Line of text: the title, and the numbers that decide most."""
        return (
            f"{self.title}: {self.cores} cores at {self.clock_mhz} MHz, "
            f"{self.flops_per_ns:.0f} GFLOP/s float32 each, {self.memory_gb_per_s:.0f} GB/s, "
            f"L3 {self.l3_bytes / 2**20:g} MB"
        )

    @staticmethod
    def of_cores(cores: int) -> CPU:
        """So many cores of a socket of the kind that our measurements come from."""
        cores = require_whole("cores", cores, least=1, most=MOST_CORES)
        return CPU(
            title="AMD EPYC 9004 (Zen 4)",
            source="AMD EPYC 9004 series architecture overview (2022); AMD, Software optimization "
            "guide for the Zen 4 microarchitecture (2023)",
            cores=cores,
            clock_mhz=3700,
            simd_width=16,
            fmas_per_cycle=1,
            loads_per_cycle=1,
            l2_bytes=1 << 20,
            # Eight cores share a third-level cache of 32 MB.
            l3_bytes=-(-cores // 8) * (32 << 20),
            l3_gb_per_s=60,
            memory_gb_per_s=min(461.0, 30.0 * cores),
            core_gb_per_s=30,
            call_ns=150,
            signal_ns=300,
            hop_ns=70,
            fetch_ns_per_kb=200,
        )
