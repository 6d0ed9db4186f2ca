"""Robust statistics, which few wild samples cannot spoil: medians, spread, intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from tvm_ios.errors import OptionError

__all__ = ["least_values", "median_absolute_deviation", "median_error", "median_interval"]

SIGMA_PER_DEVIATION = 1.4826
"""Standard deviation over median absolute deviation, for normal noise."""
MEDIAN_PENALTY = 1.2533
"""Standard error of a median over that of a mean, for normal noise (the root of pi/2)."""


def median_absolute_deviation(values: Sequence[float]) -> float:
    """Median distance from the median, in the unit of the values."""
    middle = median(values)
    return median(abs(value - middle) for value in values)


def median_error(values: Sequence[float]) -> float:
    """Standard error of the median as a fraction of it, estimated; infinite below 3 values.

    The estimate uses the median absolute deviation, so one sample hit by another process does not
    make a quiet stage look noisy.
    """
    middle = median(values) if values else 0.0
    if len(values) < 3 or middle <= 0:
        return math.inf
    sigma = SIGMA_PER_DEVIATION * median_absolute_deviation(values)
    return MEDIAN_PENALTY * sigma / math.sqrt(len(values)) / middle


def least_values(confidence: float) -> int:
    """Fewest values that bound their median with a confidence."""
    if not 0 < confidence < 1:
        raise OptionError(f"confidence is {confidence}; it must lie between 0 and 1, as 0.95 does")
    return math.ceil(1 - math.log2(1 - confidence))


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Interval that holds the true median with at least a confidence.

    It comes from order statistics and the binomial distribution (David and Nagaraja, Order
    Statistics, section 7.1): rounds only have to be independent.
    """
    least = least_values(confidence)
    ordered = sorted(values)
    count = len(ordered)
    rank = -1
    tail = 1
    # Whole numbers: a binomial tail in floats would underflow beyond a thousand rounds.
    while 1 - 2 * (tail / 2**count) >= confidence:
        rank += 1
        tail += math.comb(count, rank + 1)
    if rank < 0:
        raise OptionError(
            f"{count} values cannot bound a median with confidence {confidence}; "
            f"take at least {least}"
        )
    return ordered[rank], ordered[count - 1 - rank]
