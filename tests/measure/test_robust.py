from __future__ import annotations

import math
import random
from fractions import Fraction
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.errors import OptionError
from tvm_ios.measure.robust import median_absolute_deviation, median_error, median_interval


def test_deviation_ignores_a_wild_sample() -> None:
    assert median_absolute_deviation([10, 11, 12, 13, 1e9]) == 1


def test_error_of_a_constant_is_zero_and_of_few_values_unknown() -> None:
    assert median_error([5.0] * 5) == 0
    assert median_error([5.0, 5.0]) == math.inf
    assert median_error([]) == math.inf
    assert median_error([0.0] * 5) == math.inf


def test_error_estimates_the_scatter_of_medians() -> None:
    noise = random.Random(1)
    rows = [[noise.gauss(100, 5) for _ in range(15)] for _ in range(2000)]
    medians = [median(row) for row in rows]
    true_error = math.sqrt(sum((value - 100) ** 2 for value in medians) / len(medians)) / 100
    assert median(median_error(row) for row in rows) == pytest.approx(true_error, rel=0.2)


@pytest.mark.parametrize(
    ("count", "rank"),
    [(6, 0), (8, 0), (9, 1), (15, 3), (25, 7), (100, 39)],
)
def test_interval_ranks_match_published_tables(count: int, rank: int) -> None:
    """Ranks of the 95 % interval, as in Conover, Practical Nonparametric Statistics."""
    assert median_interval(list(range(count))) == (rank, count - 1 - rank)


@given(count=st.integers(6, 200), confidence=st.sampled_from([0.5, 0.9, 0.95]))
def test_interval_is_the_narrowest_with_its_confidence(count: int, confidence: float) -> None:
    low, high = median_interval(list(range(count)), confidence)
    rank = int(low)
    assert high == count - 1 - rank

    def coverage(k: int) -> Fraction:
        tail = sum(math.comb(count, i) for i in range(k + 1))
        return 1 - Fraction(2 * tail, 2**count)

    assert coverage(rank) >= confidence
    assert coverage(rank + 1) < confidence


def test_interval_of_thousands_of_values() -> None:
    low, high = median_interval(list(range(2000)))
    assert low < 1000 < high
    assert high - low < 100


@pytest.mark.parametrize("count", [0, 1, 5])
def test_too_few_values_are_refused(count: int) -> None:
    with pytest.raises(OptionError, match="take at least 6"):
        median_interval([1.0] * count)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, math.nan])
def test_impossible_confidence_is_refused(confidence: float) -> None:
    with pytest.raises(OptionError, match="confidence"):
        median_interval([1.0] * 9, confidence)
