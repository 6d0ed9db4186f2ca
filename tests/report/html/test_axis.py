from __future__ import annotations

import pytest

from tvm_ios.report.html.axis import Axis


def texts(axis, most, unit=""):
    return [tick.text for tick in axis.ticks(most, unit)]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, ["0", "2", "4", "6", "8", "10"]),
        (0.93, 1.31, ["1.0", "1.1", "1.2", "1.3"]),
        (0, 0.0042, ["0.000", "0.001", "0.002", "0.003", "0.004"]),
        (0, 12_345, ["0", "2500", "5000", "7500", "10000"]),
        (0, 9.4, ["0", "2", "4", "6", "8"]),
        (0, 12, ["0.0", "2.5", "5.0", "7.5", "10.0"]),
        (3, 3, ["3"]),
    ],
)
def test_ticks_are_round_numbers_within_the_range(low, high, expected):
    assert texts(Axis(low=low, high=high, begin=0, end=100), 5) == expected


def test_a_value_stands_in_proportion_and_never_outside():
    axis = Axis(low=10, high=20, begin=100, end=0)
    assert [axis.at(value) for value in (10, 12.5, 20, 5, 99)] == [100, 75, 0, 100, 0]
    assert texts(axis, 2, " ms") == ["10 ms", "15 ms", "20 ms"]
