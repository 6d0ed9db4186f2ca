"""Makers and lanes of operators: settled once, and known from then on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.pricing import LANES, MEASURE, chain_graph, plain_choice, plain_prices
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.known_choices import KnownChoices
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.profile.way_choice import (
    LONG_OPERATOR_NS,
    KnownWays,
    clearly_fastest,
    distinct_ways,
    settled_choice,
    settled_prices,
)

GRAPH = chain_graph(4)
CONTEXT = ProfileContext(device="fake", lanes=2, tvm_version="0.17.0", kernels="llvm")
CHOICE = plain_choice(GRAPH, unsplit=(1, 2))


def known_ways(path: Path) -> KnownWays:
    return KnownWays(KnownChoices(ProfileDatabase(path), CONTEXT), "kernels")


def test_ways_that_are_the_same_are_timed_once() -> None:
    long = plain_choice(GRAPH, 1 << 20)  # so nothing is short
    assert list(distinct_ways(long, long)) == ["in the network"]
    by_price = replace(long, unsplit=(1,))
    assert distinct_ways(by_price, long) == {"in the network": long, "by price": by_price}


def test_ways_between_the_two_are_timed_too() -> None:
    ways = distinct_ways(replace(CHOICE, unsplit=(2,)), CHOICE)
    assert {name: way.unsplit for name, way in ways.items()} == {
        "in the network": (1, 2),
        "by price": (2,),
        "all split": (),
        "none of the short ones split": (0, 1, 2, 3),
    }


@pytest.mark.parametrize(
    ("others_ns", "kept"), [((99.0, 99.5), "one"), ((97.0, 96.0), "three"), ((97.0, 99.0), "two")]
)
def test_the_first_way_is_kept_unless_another_one_is_clearly_faster(others_ns, kept) -> None:
    row = CompareRound(run_ns=(100.0, *others_ns), ping_pong_ns=50.0, slow=False)
    names = ("one", "two", "three")
    race = Comparison(names=names, rounds=(row,) * 9, confidence=0.95, notes=())
    assert clearly_fastest(race) == kept


def test_a_choice_of_busy_times_is_not_for_ever(tmp_path: Path) -> None:
    known = known_ways(tmp_path / "prices.sqlite")
    assert known.choice(CHOICE.prices, busy=True) is None
    known.keep("by price", CHOICE, busy=True)
    assert known.choice(CHOICE.prices, busy=True) == CHOICE
    assert known.choice(CHOICE.prices, busy=False) is None
    quiet = replace(CHOICE, unsplit=())
    known.keep("all split", quiet, busy=False)
    assert known.choice(CHOICE.prices, busy=False) == quiet
    assert known.choice(CHOICE.prices, busy=True) == quiet


def test_a_choice_is_kept_with_its_libraries(tmp_path: Path) -> None:
    prices = plain_prices(GRAPH, [10_000] * 4, {"a": {0: 500, 2: 500}})
    known = known_ways(tmp_path / "prices.sqlite")
    known.keep("by price", prices.choice(), busy=False)
    assert known.choice(prices, busy=False) == prices.choice()
    assert known.choice(plain_prices(GRAPH, [10_000] * 4), busy=False) is None


def test_prices_decide_alone_where_operators_are_long(kernels: MeasuredKernels) -> None:
    graph = kernels.graph
    prices = plain_prices(graph, [LONG_OPERATOR_NS] * len(graph))
    assert settled_choice(kernels, prices) == prices.choice()


@pytest.mark.skipif(LANES < 2, reason="one core: there is no lane that could help")
def test_ways_that_were_settled_are_not_timed_again(
    runner: RelayStageRunner, tmp_path: Path
) -> None:
    database = ProfileDatabase(tmp_path / "prices.sqlite")
    kernels = MeasuredKernels(runner, database=database, options=MEASURE)
    settled = plain_choice(kernels.graph, unsplit=(1,))
    KnownWays(kernels.choices, kernels.identity).keep("by price", settled, busy=False)
    assert settled_choice(kernels, settled.prices) == settled
    assert kernels.counters.requested == 0


@pytest.mark.slow(1)
@pytest.mark.skipif(LANES < 2, reason="one core: there is no lane that could help")
def test_prices_are_settled_by_measuring(kernels: MeasuredKernels) -> None:
    prices = settled_prices(kernels)
    assert kernels.counters.priced > 0
    assert set(prices.choice.unsplit) <= set(prices.choice.prices.choice().short)
    assert prices.alone_ns == prices.choice.alone_ns
