"""Choices that follow from prices of operators: plain values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.pricing import chain_graph, plain_choice, plain_prices
from tvm_ios.core.schedule import LibraryOperators
from tvm_ios.profile.operator_prices import (
    LONG_NS,
    TVM,
    OperatorChoice,
    OperatorPrice,
    OperatorPrices,
)

GRAPH = chain_graph(3)


def test_the_fastest_maker_is_chosen_and_among_equals_the_first() -> None:
    prices = plain_prices(
        GRAPH, [10_000, 10_000, 10_000], {"a": {0: 5_000, 1: 10_000}, "b": {0: 4_000}}
    )
    choice = prices.choice()
    assert choice.makers == ("b", TVM, TVM)
    assert choice.made_by("b") == (0,)
    assert choice.alone_ns == (4_000, 10_000, 10_000)
    rows = (LibraryOperators("a", ()), LibraryOperators("b", (0,)))
    assert choice.rows(["a", "b"]) == rows
    assert OperatorChoice.of_rows(prices, rows, choice.unsplit) == choice


@pytest.mark.parametrize(
    ("rows", "unsplit"),
    [
        ([LibraryOperators("a", (1,))], ()),
        ([LibraryOperators("gone", (0,))], ()),
        ([], (3,)),
    ],
)
def test_a_stored_choice_of_other_kernels_does_not_fit(rows, unsplit) -> None:
    prices = plain_prices(GRAPH, [10_000] * 3, {"a": {0: 5_000}})
    assert OperatorChoice.of_rows(prices, rows, unsplit) is None


def test_what_is_far_slower_is_not_promising() -> None:
    prices = plain_prices(GRAPH, [200_000] * 3, {"a": {0: 1_600_000, 1: 1_600_002}})
    assert [prices.is_promising(index, "a") for index in range(3)] == [True, False, False]
    assert all(prices.is_promising(index, TVM) for index in range(3))
    assert not plain_prices(GRAPH, [2_000_000] * 3, {"a": {0: 100_000}}).is_promising(0, TVM)


def test_a_long_operator_is_split_whatever_its_price_says() -> None:
    for alone_ns, unsplit in ((LONG_NS, ()), (LONG_NS - 1, (0, 1, 2))):
        price = OperatorPrice(alone_ns=alone_ns, helped_ns=alone_ns)
        by_maker = {TVM: dict.fromkeys(range(3), price)}
        choice = OperatorPrices(graph=GRAPH, by_maker=by_maker).choice()
        assert choice.unsplit == choice.short == unsplit


def test_help_has_to_gain_more_than_the_noise() -> None:
    for gain_ns, unsplit in ((-5, (0, 1, 2)), (1000, (0, 1, 2)), (1001, ())):
        price = OperatorPrice(alone_ns=10_000, helped_ns=10_000 - gain_ns)
        by_maker = {TVM: dict.fromkeys(range(3), price)}
        prices = OperatorPrices(graph=GRAPH, by_maker=by_maker)
        assert prices.choice().unsplit == unsplit
        assert prices.price_ns(0, TVM) == (10_000 if unsplit else 10_000 - gain_ns)
        # Where nothing helps, nothing is gained, and nothing is decided.
        assert replace(prices, idle_lanes_help=False).choice().unsplit == ()


def test_the_time_of_own_kernels_is_told_over_that_of_the_fastest() -> None:
    prices = plain_prices(GRAPH, [100_000] * 3, {"a": {0: 50_000, 1: 200_000}})
    assert prices.own_ratio == 300 / 250
    assert plain_choice(GRAPH).prices.own_ratio == 1
