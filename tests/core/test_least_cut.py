"""Choices at the least cost: against every combination, on small random problems."""

from __future__ import annotations

import math
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.core.least_cut import least_cut

PRICES = st.integers(0, 40)


def cost_ns(first, second, apart, choice) -> float:
    prices = zip(first, second, choice, strict=True)
    own = sum(other if chosen else one for one, other, chosen in prices)
    return own + sum(ns for (one, other), ns in apart.items() if choice[one] and not choice[other])


@st.composite
def problems(draw):
    count = draw(st.integers(1, 6))
    places = st.integers(0, count - 1)
    pairs = st.tuples(places, places).filter(lambda pair: pair[0] != pair[1])
    first = draw(st.lists(PRICES, min_size=count, max_size=count))
    second = draw(st.lists(PRICES | st.just(math.inf), min_size=count, max_size=count))
    apart = draw(st.dictionaries(pairs, PRICES | st.just(math.inf), max_size=8))
    return first, second, apart


@given(problems())
def test_no_other_choice_costs_less(problem):
    found = least_cut(*problem)
    every = product((False, True), repeat=len(found))
    assert cost_ns(*problem, found) == min(cost_ns(*problem, each) for each in every)


def test_a_price_for_being_apart_has_a_direction():
    assert least_cut([5, 0], [0, 5], {(1, 0): 100}) == (True, False)
    assert least_cut([5, 0], [0, 5], {(0, 1): 100}) != (True, False)
    assert least_cut([], [], {}) == ()
