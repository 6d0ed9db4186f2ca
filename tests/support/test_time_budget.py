"""The time a call may take."""

from __future__ import annotations

import math

import pytest

from tvm_ios.errors import OptionError
from tvm_ios.support.time_budget import TimeBudget


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


def test_it_counts_down_from_its_making():
    clock = Clock()
    budget = TimeBudget(10, clock_s=clock)
    assert (budget.left_s, budget.allows(10), budget.allows(10.1)) == (10, True, False)
    clock.now_s += 4
    assert (budget.spent_s, budget.left_s, budget.allows(6), budget.allows(7)) == (
        4,
        6,
        True,
        False,
    )
    assert budget.notes == ()
    budget.cut("padded channels were not tried")
    clock.now_s += 7
    assert budget.notes == (
        "for time_budget=10, padded channels were not tried",
        "the call took 11.0 s with time_budget=10: compiling and pricing single operators cannot "
        "be cut",
    )


def test_without_a_limit_everything_is_allowed():
    budget = TimeBudget()
    assert (budget.left_s, budget.allows(1e9), budget.notes) == (math.inf, True, ())


def test_a_part_is_of_what_is_left_beyond_a_reserve():
    clock = Clock()
    budget = TimeBudget(10, clock_s=clock)
    clock.now_s += 1
    first = budget.part(2, reserve_s=3)
    assert (first.left_s, first.allows(3), first.allows(3.1)) == (3, True, False)
    clock.now_s += 2
    assert (first.left_s, budget.part(1, reserve_s=3).left_s) == (1, 4)
    clock.now_s += 8
    overdrawn = budget.part(1)
    clock.now_s += 1
    assert not overdrawn.allows(0)
    assert TimeBudget().part(3, reserve_s=5).left_s == math.inf


@pytest.mark.parametrize("seconds", [0, -1, math.nan, True, "5"])
def test_no_seconds_are_refused(seconds):
    with pytest.raises(OptionError, match="time_budget is .*give seconds above 0"):
        TimeBudget(seconds)
