"""Likely prices of stages that were not measured, corrected by those that were.

A cost model predicts a stage from its operators, and is off by what starting lanes, shared caches
and bandwidth cost. So a price is about a multiple of the prediction, plus a constant; both are
learned from prices, by least squares of relative errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Forecast"]

NOISE = 0.1
"""Relative error of a likely price."""
USUAL_FACTOR = (1.0, 0.3)
"""Factor from prediction to price before anything is learned, and its deviation."""
USUAL_SURPLUS_NS = (0.0, 500.0)
"""Constant surplus of a stage in nanoseconds, likewise."""
HOPE = 0.05
"""Share by which a stage without a price is hoped to cost less than it is likely to."""


@dataclass(slots=True)
class Forecast:
    """Line from predictions to prices of stages of several groups, shared by blocks of a search."""

    factor: float = USUAL_FACTOR[0]
    surplus_ns: float = USUAL_SURPLUS_NS[0]
    sums: list[float] = field(default_factory=lambda: [0.0] * 5)
    """Sums over prices: of 1, 1/p, 1/p², r and r/p, with prediction p and r = price / p."""

    def likely_ns(self, predicted_ns: int) -> int:
        """Likely price of a stage of several groups in nanoseconds."""
        return round((1 - HOPE) * (self.factor * predicted_ns + self.surplus_ns))

    def learn(self, prices: Iterable[tuple[int, int]]) -> None:
        """Learn from stages of several groups: predicted and true nanoseconds of each."""
        for predicted_ns, price_ns in prices:
            inverse, ratio = 1 / predicted_ns, price_ns / predicted_ns
            terms = (1.0, inverse, inverse * inverse, ratio, ratio * inverse)
            self.sums = [total + term for total, term in zip(self.sums, terms, strict=True)]
        count, inverse, square, ratio, product = (each / NOISE**2 for each in self.sums)
        # The usual values count like one more observation of each.
        (factor, factor_error), (surplus_ns, surplus_error_ns) = USUAL_FACTOR, USUAL_SURPLUS_NS
        count += factor_error**-2
        ratio += factor * factor_error**-2
        square += surplus_error_ns**-2
        product += surplus_ns * surplus_error_ns**-2
        determinant = count * square - inverse * inverse
        self.factor = (ratio * square - inverse * product) / determinant
        self.surplus_ns = (count * product - inverse * ratio) / determinant
