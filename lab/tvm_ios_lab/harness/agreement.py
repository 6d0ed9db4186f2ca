"""Agreement of a model with measurements: speedups side by side, their errors, and their order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["ALIKE", "Agreement", "error_of", "mean_error"]

ALIKE = 0.97
"""Ratio of two latencies above which they have no order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Latencies of the same schedules of one network, by a model and by a clock."""

    subject: str
    """Network and device, for people."""
    observed_ms: Mapping[str, float]
    """Measured milliseconds by schedule; the first schedule is the base of all speedups."""
    model_ms: Mapping[str, float]
    """Milliseconds by the model, of the same schedules."""

    @property
    def observed(self) -> dict[str, float]:
        """Measured speedup of each other schedule over the first."""
        return _speedups(self.observed_ms)

    @property
    def predicted(self) -> dict[str, float]:
        """Speedup of each other schedule over the first, by the model."""
        return _speedups({name: self.model_ms[name] for name in self.observed_ms})

    @property
    def errors(self) -> dict[str, float]:
        """Predicted over measured speedup, less 1, by schedule."""
        observed = self.observed
        return {name: error_of(told, observed[name]) for name, told in self.predicted.items()}

    def order(self) -> tuple[int, int]:
        """Number of schedule pairs the model orders as measured, and of those with an order."""
        told = self.observed_ms
        pairs = [(a, b) for a in told for b in told if told[a] < ALIKE * told[b]]
        return sum(self.model_ms[a] < self.model_ms[b] for a, b in pairs), len(pairs)


def error_of(predicted: float, observed: float) -> float:
    """Relative error of a predicted ratio: predicted over observed, less 1."""
    return predicted / observed - 1


def mean_error(errors: Iterable[float]) -> float:
    """Geometric mean of relative errors in either direction; 0.05 is 5 %."""
    logs = [abs(math.log1p(error)) for error in errors]
    return math.expm1(sum(logs) / len(logs)) if logs else 0.0


def _speedups(latencies: Mapping[str, float]) -> dict[str, float]:
    first, *others = latencies
    return {name: latencies[first] / latencies[name] for name in others}
