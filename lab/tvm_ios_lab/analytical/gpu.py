"""Descriptions of GPUs by name, for prices that are computed and not measured.

Counts, clocks, memory bandwidth and cache sizes are the vendor's, from the data sheet or whitepaper
named in ``source``; limits of a multiprocessor are those of its compute capability in the CUDA
programming guide. No data sheet has the bytes an L2 cache moves in a cycle (the A100 whitepaper
has those of the V100 and the A100, the others are estimates from published measurements) nor the
latencies of launches and events: these are typical values, and half of them depend on the host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tvm_ios.errors import OptionError

__all__ = ["GPU", "GPU_NAMES"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GPU:
    """GPU at its boost clock, but for the K80."""

    name: str
    """Name that :meth:`by_name` takes."""
    title: str
    """Name for people."""
    source: str
    """Source of the numbers."""
    multiprocessors: int
    clock_mhz: int
    lanes: int
    """Float32 multiply-adds that one multiprocessor starts in a cycle."""
    memory_gb_per_s: int
    l2_bytes: int
    l2_bytes_per_cycle: int
    """Bytes that the whole L2 cache hands out in a cycle."""
    max_threads: int
    """Resident threads of a multiprocessor; likewise the next three."""
    max_blocks: int
    registers: int
    shared_bytes: int
    issue_ns: int
    """Host time to launch one kernel on a stream."""
    stream_launch_ns: int
    """Time from the end of a kernel to the first instruction of the next one on its stream."""
    graph_launch_ns: int
    """Time from kernel to kernel, as for ``stream_launch_ns``, inside a CUDA graph."""
    event_ns: int
    """Time from the end of the last group to a stream that waits for all of them."""
    synchronise_ns: int
    """Time from the end of the work, over a device-wide wait of the host, to its next launch."""

    @property
    def flops_per_ns(self) -> float:
        """Float32 operations in a nanosecond; a multiply-add counts two."""
        return 2 * self.multiprocessors * self.lanes * self.cycles_per_ns

    @property
    def cycles_per_ns(self) -> float:
        """Cycles of the clock in a nanosecond."""
        return self.clock_mhz / 1000

    def as_text(self) -> str:
        """Line of text: the title, and the numbers that decide most."""
        return (
            f"{self.title}: {self.multiprocessors} multiprocessors at {self.clock_mhz} MHz, "
            f"{self.flops_per_ns / 1000:.1f} TFLOP/s float32, {self.memory_gb_per_s} GB/s, "
            f"L2 {self.l2_bytes / 2**20:g} MB"
        )

    @staticmethod
    def by_name(name: str) -> GPU:
        """The GPU of that name; capitals, spaces and underscores do not count."""
        if isinstance(name, str):
            wanted = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
            for gpu in _GPUS:
                if wanted == gpu.name:
                    return gpu
        raise OptionError(f"no GPU named {name!r}; choose one of {', '.join(GPU_NAMES)}")


_V100 = GPU(
    name="v100",
    title="NVIDIA V100 SXM2",
    source="NVIDIA V100 data sheet (2020); NVIDIA Tesla V100 architecture whitepaper (2017)",
    multiprocessors=80,
    clock_mhz=1530,
    lanes=64,
    memory_gb_per_s=900,
    l2_bytes=6 * 2**20,
    l2_bytes_per_cycle=2048,
    max_threads=2048,
    max_blocks=32,
    registers=65536,
    shared_bytes=96 * 2**10,
    issue_ns=4500,
    stream_launch_ns=2500,
    graph_launch_ns=1800,
    event_ns=1500,
    synchronise_ns=10000,
)
_A100_40GB = replace(
    _V100,
    name="a100-40gb",
    title="NVIDIA A100 SXM4 40GB",
    source="NVIDIA A100 data sheet (2021); NVIDIA A100 architecture whitepaper (2020)",
    multiprocessors=108,
    clock_mhz=1410,
    memory_gb_per_s=1555,
    l2_bytes=40 * 2**20,
    l2_bytes_per_cycle=5120,
    shared_bytes=164 * 2**10,
    issue_ns=3500,
    stream_launch_ns=2200,
    graph_launch_ns=1500,
    event_ns=1200,
    synchronise_ns=9000,
)
_H100_SXM = replace(
    _A100_40GB,
    name="h100",
    title="NVIDIA H100 SXM5",
    source="NVIDIA H100 data sheet (2023); NVIDIA H100 architecture whitepaper (2022)",
    multiprocessors=132,
    clock_mhz=1980,
    lanes=128,
    memory_gb_per_s=3350,
    l2_bytes=50 * 2**20,
    shared_bytes=228 * 2**10,
    issue_ns=2500,
    stream_launch_ns=1800,
    graph_launch_ns=1200,
    event_ns=1000,
    synchronise_ns=8000,
)
# Chosen with its two published latencies in view: base clock, not the 875 MHz of its boost, and one
# instruction of each of its four schedulers a cycle, where 192 lanes would take six.
_K80 = replace(
    _V100,
    name="k80",
    title="NVIDIA K80, one of its two GPUs, base clock, no dual issue",
    source="NVIDIA Tesla K80 board specification (2015), for its base clock; NVIDIA Kepler tuning "
    "guide, for what a scheduler issues; L2: Jia et al., Dissecting the NVIDIA Volta GPU "
    "architecture (2018); latencies are those of the V100",
    multiprocessors=13,
    clock_mhz=560,
    lanes=128,
    memory_gb_per_s=240,
    l2_bytes=3 * 2**19,
    l2_bytes_per_cycle=384,
    max_blocks=16,
    registers=131072,
    shared_bytes=112 * 2**10,
)
_GPUS: Final = (
    _V100,
    _A100_40GB,
    replace(_A100_40GB, name="a100-80gb", title="NVIDIA A100 SXM4 80GB", memory_gb_per_s=2039),
    _H100_SXM,
    replace(
        _H100_SXM,
        name="h100-pcie",
        title="NVIDIA H100 PCIe",
        multiprocessors=114,
        clock_mhz=1755,
        memory_gb_per_s=2000,
    ),
    replace(
        _H100_SXM,
        name="h200",
        title="NVIDIA H200 SXM5",
        source="NVIDIA H200 data sheet (2024)",
        memory_gb_per_s=4800,
    ),
    replace(
        _H100_SXM,
        name="rtx-4090",
        title="NVIDIA GeForce RTX 4090",
        source="NVIDIA Ada GPU architecture whitepaper (2022)",
        multiprocessors=128,
        clock_mhz=2520,
        memory_gb_per_s=1008,
        l2_bytes=72 * 2**20,
        l2_bytes_per_cycle=2048,
        max_threads=1536,
        max_blocks=24,
        shared_bytes=100 * 2**10,
    ),
    replace(
        _V100,
        name="t4",
        title="NVIDIA T4",
        source="NVIDIA T4 data sheet (2019); NVIDIA Turing architecture whitepaper (2018)",
        multiprocessors=40,
        clock_mhz=1590,
        memory_gb_per_s=320,
        l2_bytes=4 * 2**20,
        l2_bytes_per_cycle=1024,
        max_threads=1024,
        max_blocks=16,
        shared_bytes=64 * 2**10,
    ),
    _K80,
)
GPU_NAMES: Final = tuple(gpu.name for gpu in _GPUS)
"""Names that :meth:`GPU.by_name` takes."""
