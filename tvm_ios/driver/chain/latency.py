"""Latency of one running model: its median, and the interval that holds it.

Samples are taken as in every race, between ping-pongs that show the machine's slow mode. Free of
TVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm_ios.measure.compare import CompareOptions, compare

if TYPE_CHECKING:
    from tvm_ios.devices.protocol import TimedExecutor

__all__ = ["Latency", "measure_latency"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Milliseconds of one run of a model, over rounds of one measurement."""

    median_ms: float
    low_ms: float
    """Lower end of the interval that holds the true median with :attr:`confidence`."""
    high_ms: float
    confidence: float
    rounds: int
    """Number of rounds that count."""
    notes: tuple[str, ...] = ()
    """Lines on the state of the machine during the rounds."""

    def meets(self, sla_ms: float) -> bool:
        """True if the whole interval is at most a service level: met beyond the noise."""
        return self.high_ms <= sla_ms

    def as_text(self) -> str:
        """Line of text: median, interval, rounds."""
        return (
            f"{self.median_ms:.4f} ms ({self.low_ms:.4f} to {self.high_ms:.4f}, the median with "
            f"{self.confidence:.0%} confidence, {self.rounds} rounds)"
        )


def measure_latency(
    executor: TimedExecutor, inputs: Mapping[str, Any], options: CompareOptions
) -> Latency:
    """Latency of a model that is timed alone, in all rounds, on inputs by name."""
    for name, value in inputs.items():
        executor.set_input(name, value)
    found = compare(
        {"model": executor.time_ns},
        options=options,
        ping_pong_ns=executor.ping_pong_ns,
        waits=[executor.waited_ns],
    )
    low_ns, high_ns = found.interval_ns("model")
    return Latency(
        median_ms=found.median_ns("model") / 1e6,
        low_ms=low_ns / 1e6,
        high_ms=high_ns / 1e6,
        confidence=found.confidence,
        rounds=len(found.used_rounds),
        notes=found.notes,
    )
