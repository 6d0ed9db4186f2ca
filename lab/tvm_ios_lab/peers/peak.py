"""Peak of the cores: float32 multiply-adds in registers, measured by the library's C loop."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass

from tvm_ios.host.lane_speeds import LANE_SPEEDS
from tvm_ios_lab.peers.errors import PeerError

__all__ = ["Peak", "best_peak", "floor_ns", "measure_peak"]

_STEPS = 500_000
"""Steps of a sample, about 10 ms: short enough to fall between disturbances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """GFLOP/s, a multiply-add counted as two operations; the best of some samples."""

    of_each_core: tuple[float, ...]
    """GFLOP/s of one core alone, the others idle; in the order of their numbers."""
    of_all_cores: float
    """GFLOP/s of all cores together."""
    vector_bits: int


def measure_peak(samples: int = 50) -> Peak:
    """Measure this process's cores; takes about half a second for each, and one for all."""
    library = LANE_SPEEDS.library
    cores = sorted(os.sched_getaffinity(0))
    return Peak(
        of_each_core=tuple(_best_gflops(library, [core], samples) for core in cores),
        of_all_cores=_best_gflops(library, cores, samples),
        vector_bits=library.tvm_ios_vector_bits(),
    )


def best_peak(first: Peak, second: Peak) -> Peak:
    """The better of two measurements of the same cores, core by core."""
    return Peak(
        of_each_core=tuple(map(max, first.of_each_core, second.of_each_core)),
        of_all_cores=max(first.of_all_cores, second.of_all_cores),
        vector_bits=first.vector_bits,
    )


def floor_ns(macs: int, gflops: float) -> float:
    """Least nanoseconds of so many multiply-accumulates, two operations each.

    No bound on Winograd or FFT convolutions, which need fewer.
    """
    return 2 * macs / gflops


def _best_gflops(library: ctypes.CDLL, cores: list[int], samples: int) -> float:
    measure = library.tvm_ios_peak_gflops
    measure.restype = ctypes.c_double
    measure.argtypes = [ctypes.POINTER(ctypes.c_int), ctypes.c_int, ctypes.c_int64]
    numbers = (ctypes.c_int * len(cores))(*cores)
    best = max(float(measure(numbers, len(cores), _STEPS)) for _ in range(samples))
    if best <= 0:
        raise PeerError(f"no threads could be made for cores {cores}; see ulimit -u")
    return best
