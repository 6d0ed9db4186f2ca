from __future__ import annotations

import pytest

from tvm_ios_lab.harness.agreement import Agreement, mean_error


def agreement(observed, model):
    names = ("sequential", "greedy", "ios")
    return Agreement(
        subject="network",
        observed_ms=dict(zip(names, observed, strict=True)),
        model_ms=dict(zip(names, model, strict=True)),
    )


def test_errors_are_of_speedups_and_not_of_latencies():
    off_by_two = agreement((8, 4, 2), (16, 8, 4))
    assert off_by_two.observed == off_by_two.predicted == {"greedy": 2, "ios": 4}
    assert off_by_two.errors == {"greedy": 0, "ios": 0}
    wrong = agreement((8, 4, 2), (8, 5, 1))
    assert wrong.errors == pytest.approx({"greedy": 1.6 / 2 - 1, "ios": 1.0})


def test_mean_error_counts_both_ways_alike():
    double, half = agreement((8, 4, 4), (8, 2, 4)), agreement((8, 4, 4), (8, 8, 4))
    for each in (double, half):
        assert mean_error(each.errors.values()) == pytest.approx(2**0.5 - 1)
    assert mean_error([]) == 0


def test_order_leaves_out_what_is_alike():
    assert agreement((8, 4, 3.95), (8, 4, 5)).order() == (2, 2)
    assert agreement((8, 4, 2), (3, 4, 2)).order() == (2, 3)
