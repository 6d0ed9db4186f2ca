"""Predicted prices: plain values, whose errors say what has to be measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.operator_graphs import op
from tests.pricing import chain_graph, plain_prices
from tvm_ios.cost.efficiencies import Balance, Efficiencies, Efficiency, Size, Spread
from tvm_ios.host.lane_speeds import LaneSpeeds
from tvm_ios.profile.operator_prices import EXACT, TVM, OperatorPrice, OperatorPrices
from tvm_ios.profile.predicted_prices import (
    FOUND_ERROR,
    PricePredictor,
    close_calls,
    how_far_off,
)

GRAPH = chain_graph(3)
SPEEDS = LaneSpeeds(
    flops_per_ns=100,
    memory_bytes_per_ns=10,
    shared_bytes_per_ns=10,
    cached_bytes_per_ns=50,
    cache_bytes=1 << 20,
    hop_ns=60,
    launch_ns=5,
)
ROW = Efficiency(
    kind="conv2d",
    balance=Balance.COMPUTES,
    size=Size.MEDIUM,
    maker=TVM,
    reached=0.5,
    serial=0.25,
    spread=Spread(faster=1.2, slower=1.3),
    count=9,
)
PREDICTOR = PricePredictor(
    speeds=SPEEDS,
    lanes=2,
    efficiencies=Efficiencies([ROW, replace(ROW, maker="a", reached=0.8)]),
)
CONVOLUTION = op("a", kind="conv2d", flops=9_000_000, memory_bytes=100_000)


def test_a_price_is_the_bound_over_the_efficiency():
    price = PREDICTOR.price(CONVOLUTION, TVM)
    assert price == OperatorPrice(alone_ns=180_000, helped_ns=112_500, error=ROW.spread)
    assert PREDICTOR.price(CONVOLUTION, "a").alone_ns == 112_500
    one_lane = replace(PREDICTOR, lanes=1).price(CONVOLUTION, TVM)
    assert one_lane.alone_ns == one_lane.helped_ns == 180_000


def test_bytes_bound_what_computes_little():
    moved = replace(CONVOLUTION, flops=0, memory_bytes=500_000)
    assert PREDICTOR.price(moved, TVM).alone_ns == 20_000


def test_a_time_that_a_library_found_is_of_all_lanes():
    price = PREDICTOR.price(CONVOLUTION, "a", 70_000)
    assert price == OperatorPrice(alone_ns=112_000, helped_ns=70_000, error=FOUND_ERROR)


def test_a_short_time_that_was_found_may_be_far_too_long():
    error = PREDICTOR.price(CONVOLUTION, "a", 2_000).error
    assert error.faster > FOUND_ERROR.faster
    assert error.slower == FOUND_ERROR.slower


def test_measured_help_is_at_least_what_is_usual():
    """One operator gained less than usual, one gained more, of the same row."""
    graph = replace(GRAPH, operators=tuple(replace(CONVOLUTION, name=n) for n in "abc"))
    price = OperatorPrice(alone_ns=1600, helped_ns=1600)
    each = {0: price, 1: replace(price, helped_ns=900), 2: replace(price, helped_ns=1000)}
    measured = OperatorPrices(graph=graph, by_maker={TVM: each})
    usual = PREDICTOR.with_usual_help(measured)
    assert [each.helped_ns for each in usual.by_maker[TVM].values()] == [1000, 900, 1000]
    assert {each.alone_ns for each in usual.by_maker[TVM].values()} == {1600}


def test_all_operators_are_priced_by_who_can_compute_them():
    prices = PREDICTOR.prices(
        GRAPH,
        {TVM: range(3), "a": [2]},
        found_ns={"a": {2: 7}},
        needs_no_kernel=lambda index: index == 1,
    )
    assert prices.by_maker[TVM].keys() == {0, 1, 2}
    assert prices.by_maker[TVM][1] == OperatorPrice(alone_ns=1, helped_ns=1)
    assert prices.by_maker["a"][2].helped_ns == 7
    assert prices.predicted == 2
    assert prices.choice().makers == (TVM, TVM, "a")


def with_errors(prices: OperatorPrices, **errors: float) -> OperatorPrices:
    return replace(
        prices,
        by_maker={
            maker: {
                index: replace(price, error=Spread(faster=errors[maker], slower=errors[maker]))
                for index, price in each.items()
            }
            for maker, each in prices.by_maker.items()
        },
    )


def test_what_is_closer_than_its_errors_is_measured():
    """The first is clear, the second close, and the third close and worth nothing."""
    prices = plain_prices(
        GRAPH, [1_000_000, 1_000_000, 1_000], {"a": {0: 300_000, 1: 950_000, 2: 1_000}}
    )
    assert close_calls(with_errors(prices, tvm=1.2, a=1.1)) == (1,)
    assert close_calls(with_errors(prices, tvm=1.2, a=1.1), worth=0) == (0, 1, 2)
    assert close_calls(prices) == ()
    assert close_calls(with_errors(plain_prices(GRAPH, [1000] * 3), tvm=3.0)) == ()


def test_only_the_side_where_makers_meet_counts():
    """A maker that may be far slower than told, and hardly faster, is no rival."""
    prices = plain_prices(GRAPH, [1_000_000] * 3, {"a": dict.fromkeys(range(3), 700_000)})

    def with_rival(faster: float, slower: float) -> OperatorPrices:
        told = with_errors(prices, tvm=1.0, a=1.1)
        rival = {
            index: replace(price, error=Spread(faster=faster, slower=slower))
            for index, price in told.by_maker[TVM].items()
        }
        return told.refined({TVM: rival})

    assert close_calls(with_rival(1.1, 9.0)) == ()
    assert close_calls(with_rival(9.0, 1.1)) == (0, 1, 2)


def test_equal_operators_count_together():
    graph = chain_graph(40)
    alike = replace(graph, operators=tuple(replace(each, workload="w") for each in graph.operators))
    for each, close in ((graph, range(0)), (alike, range(40))):
        prices = plain_prices(each, [100_000] * 40, {"a": dict.fromkeys(range(40), 75_000)})
        found = close_calls(with_errors(prices, tvm=1.2, a=1.1), worth=0.001)
        assert set(found) >= set(close)


def test_measured_prices_take_the_places_of_predictions():
    prices = with_errors(plain_prices(GRAPH, [1000] * 3, {"a": {0: 900}}), tvm=1.3, a=1.1)
    measured = plain_prices(GRAPH, [500] * 3, {"a": {0: 800}}).by_maker
    first = {maker: {0: each[0]} for maker, each in measured.items()}
    refined = prices.refined(first)
    assert refined.by_maker[TVM][0].alone_ns == 500
    assert refined.by_maker["a"][0].error == EXACT
    assert (prices.predicted, refined.predicted) == (3, 2)


def test_how_far_off_predictions_were_is_told_by_kind():
    measured = plain_prices(GRAPH, [1000, 2000, 4000])
    predicted = plain_prices(GRAPH, [1500, 2000, 4000])
    told = how_far_off(predicted, measured, lambda index: index == 2)
    assert told.endswith("conv2d 1.22 (2)")
    assert how_far_off(predicted, measured, lambda _: True) == ""


@pytest.mark.parametrize("maker", [TVM, "a", "unknown"])
def test_every_operator_has_a_price(maker):
    for flops in (0, 1, 10**12):
        for size in (0, 1, 10**9):
            operator = replace(CONVOLUTION, flops=flops, memory_bytes=size, kind="odd")
            price = PREDICTOR.price(operator, maker)
            assert price.alone_ns >= price.helped_ns >= 1
            assert price.error != EXACT
