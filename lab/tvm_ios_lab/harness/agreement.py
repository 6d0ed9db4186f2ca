"""How well a model agrees with measurements: speedups side by side, their errors, and the order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["ALIKE", "Agreement", "error_of", "mean_error"]

ALIKE = 0.97
"""Two latencies whose ratio is closer to 1 than this have no order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Latencies of the same schedules of one network, by a model and by a clock."""

    subject: str
    """Network and device, for people."""
    observed_ms: Mapping[str, float]
    """By schedule; the first one is what all are compared with."""
    model_ms: Mapping[str, float]
    """The same schedules."""

    @property
    def observed(self) -> dict[str, float]:
        """How many times as fast as the first schedule each of the others was."""
        return _speedups(self.observed_ms)

    @property
    def predicted(self) -> dict[str, float]:
        """How many times as fast as the first schedule each of the others is by the model."""
        return _speedups({name: self.model_ms[name] for name in self.observed_ms})

    @property
    def errors(self) -> dict[str, float]:
        """Predicted over observed speedup, less 1."""
        observed = self.observed
        return {name: error_of(told, observed[name]) for name, told in self.predicted.items()}

    def order(self) -> tuple[int, int]:
        """Pairs of schedules that the model orders as observed, and pairs with an order."""
        told = self.observed_ms
        pairs = [(a, b) for a in told for b in told if told[a] < ALIKE * told[b]]
        return sum(self.model_ms[a] < self.model_ms[b] for a, b in pairs), len(pairs)


def error_of(predicted: float, observed: float) -> float:
    """How far a predicted ratio is off: over the observed one, less 1."""
    return predicted / observed - 1


def mean_error(errors: Iterable[float]) -> float:
    """Geometric mean of how far ratios are off, either way; 0.05 is 5 %."""
    logs = [abs(math.log1p(error)) for error in errors]
    return math.expm1(sum(logs) / len(logs)) if logs else 0.0


def _speedups(latencies: Mapping[str, float]) -> dict[str, float]:
    first, *others = latencies
    return {name: latencies[first] / latencies[name] for name in others}
