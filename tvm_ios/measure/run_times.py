"""Times of runs of one model, and the numbers that tools print of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.errors import OptionError

__all__ = ["RunTimes", "percentile"]

PERCENTILES = (90, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimes:
    """Milliseconds of a run, one number a sample."""

    run_ms: tuple[float, ...]
    """Milliseconds of a run by sample, in order; the mean where a sample has several runs."""
    number: int
    """Number of back-to-back runs in a sample."""
    warmup: int
    """Number of runs before the first sample, which do not count."""

    def __post_init__(self) -> None:
        if not self.run_ms:
            raise OptionError("there is no sample; give repeat=1 or more")

    def summary(self) -> dict[str, float]:
        """Least, mean, median, percentiles and most, in milliseconds; and runs in a second."""
        mean = statistics.fmean(self.run_ms)
        return {
            "min_ms": min(self.run_ms),
            "mean_ms": mean,
            "median_ms": statistics.median(self.run_ms),
            **{f"p{each}_ms": percentile(self.run_ms, each) for each in PERCENTILES},
            "max_ms": max(self.run_ms),
            "throughput_per_s": 1000 / mean,
        }

    def as_text(self) -> str:
        """Two lines of text: the times, and how they were taken."""
        told = self.summary()
        throughput = told.pop("throughput_per_s")
        times = ", ".join(f"{name.removesuffix('_ms')} {ms:.4f}" for name, ms in told.items())
        return (
            f"time of a run in ms: {times}\n"
            f"throughput {throughput:.2f} runs/s ({len(self.run_ms)} samples of {self.number} "
            f"runs each, after {self.warmup} for warm-up)"
        )


def percentile(values: Sequence[float], percent: float) -> float:
    """Least value that at least so many per cent of all values do not exceed (nearest rank).

    Examples
    --------
    >>> percentile([4.0, 1.0, 3.0, 2.0], 50)
    2.0
    """
    rank = math.ceil(percent / 100 * len(values))
    return sorted(values)[max(rank, 1) - 1]
