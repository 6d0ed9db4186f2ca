"""Forecasts of prices: a line that is learned from a few prices, and little by none."""

from __future__ import annotations

import pytest

from tvm_ios.search.forecast import HOPE, Forecast


def test_nothing_is_known_but_the_prediction_before_anything_is_learned():
    assert Forecast().likely_ns(10_000) == round((1 - HOPE) * 10_000)


@pytest.mark.parametrize(("factor", "surplus_ns"), [(1.0, 0), (1.2, 800), (1.7, 300), (0.8, 0)])
def test_a_line_is_learned_from_stages_of_several_sizes(factor, surplus_ns):
    forecast = Forecast()
    sizes_ns = [2000, 5000, 9000, 20_000, 60_000]
    forecast.learn((ns, round(factor * ns + surplus_ns)) for ns in 20 * sizes_ns)
    for ns in (3000, 15_000, 100_000):
        likely_ns = (1 - HOPE) * (factor * ns + surplus_ns)
        assert forecast.likely_ns(ns) == pytest.approx(likely_ns, rel=0.02)


def test_short_stages_with_a_large_surplus_do_not_make_long_ones_look_worthless():
    forecast = Forecast()
    forecast.learn([(1500, 3000), (2000, 3500), (2500, 4000)])
    assert forecast.likely_ns(2000) > 2500
    assert forecast.likely_ns(100_000) < 130_000


def test_one_odd_price_moves_a_line_by_little_once_it_is_known():
    forecast = Forecast()
    forecast.learn((ns, ns) for ns in range(2000, 40_000, 500))
    before_ns = forecast.likely_ns(10_000)
    forecast.learn([(10_000, 30_000)])
    assert forecast.likely_ns(10_000) == pytest.approx(before_ns, rel=0.06)
