"""Traits that all devices of a kind share: rough speeds, and abilities."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.core.graph import Operator
from tvm_ios.host.lane_speeds import LaneSpeeds

__all__ = ["CPU", "GPU", "DeviceTraits", "Rates"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Rough speeds of one lane: enough to choose lanes and copies.

    The same on all machines: a price is of so many copies, and is kept under no speed.
    """

    flops_per_ns: int
    bytes_per_ns: int
    least_ns: int
    most_copies: int
    """Number of copies of a short stage in one program, one after the other; see
    :class:`~tvm_ios.runtime.libraries.stage_libraries.LibraryStageRunner`."""
    longest_program_ns: int
    """Nanoseconds of a program above which it has fewer copies."""

    def guess_ns(self, operator: Operator) -> int:
        """Guess of an operator's nanoseconds alone on one lane."""
        return (
            self.least_ns
            + operator.flops // self.flops_per_ns
            + operator.memory_bytes // self.bytes_per_ns
        )

    def copies(self, stage_ns: int) -> int:
        """Number of copies of a stage in the program that times it, given its nanoseconds."""
        return max(1, min(self.most_copies, round(self.longest_program_ns / max(1, stage_ns))))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTraits:
    """Traits of every device of a kind."""

    rates: Rates
    speeds: LaneSpeeds
    """Speeds of a typical lane, where nobody has measured those of the device."""
    idle_lanes_help: bool
    """True if a long operator is faster where other lanes are idle; streams do not help each
    other."""
    concurrency_overhead_percent: int
    """Per cent of their long operators' work that concurrent groups cost more in a network than
    when repeated alone: lanes with caches of their own find there what other lanes wrote. 0 where
    lanes share their caches."""
    convolves_transposed: bool
    """True writes transposed convolutions as convolutions where that is faster."""
    pads_channels: bool
    """True pads output channels to whole vectors where that is faster."""
    kernel_layout: str | None
    """Layout of convolutions in which TVM's kernels are fast, tried beside a model's own; None
    where a model keeps its own."""
    tunes_float16: bool
    """True if TVM's tuners can compile float16 kernels; for a GPU they cannot with CUDA 12.8."""


CPU = DeviceTraits(
    rates=Rates(
        flops_per_ns=50, bytes_per_ns=10, least_ns=1, most_copies=8, longest_program_ns=400_000
    ),
    speeds=LaneSpeeds(
        flops_per_ns=260,
        memory_bytes_per_ns=38,
        shared_bytes_per_ns=100,
        cached_bytes_per_ns=250,
        cache_bytes=1 << 20,
        hop_ns=44,
        launch_ns=5,
    ),
    idle_lanes_help=True,
    concurrency_overhead_percent=20,
    convolves_transposed=True,
    pads_channels=True,
    kernel_layout="NCHW",
    tunes_float16=True,
)
GPU = DeviceTraits(
    # The start of a graph takes as long as a short stage: eight copies would pay a tenth each.
    rates=Rates(
        flops_per_ns=5000,
        bytes_per_ns=1000,
        least_ns=3000,
        most_copies=48,
        longest_program_ns=200_000,
    ),
    speeds=LaneSpeeds(
        flops_per_ns=5000,
        memory_bytes_per_ns=1000,
        shared_bytes_per_ns=1000,
        cached_bytes_per_ns=1000,
        cache_bytes=0,
        hop_ns=0,
        launch_ns=3000,
    ),
    idle_lanes_help=False,
    concurrency_overhead_percent=0,
    convolves_transposed=False,
    pads_channels=False,
    kernel_layout=None,
    tunes_float16=False,
)
