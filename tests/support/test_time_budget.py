"""The time a call may take."""

from __future__ import annotations

import math
import subprocess
import sys
import time

import pytest

from tvm_ios.errors import OptionError, OutOfTimeError
from tvm_ios.support.time_budget import Reserve, TimeBudget


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
        "the call took 11.0 s with time_budget=10: preparing and compiling the model, and writing "
        "it, cannot be cut",
    )


def test_without_a_limit_everything_is_allowed():
    budget = TimeBudget()
    assert (budget.left_s, budget.allows(1e9), budget.notes) == (math.inf, True, ())


def test_a_part_is_of_what_is_left_beyond_what_is_set_aside():
    clock = Clock()
    budget = TimeBudget(10, clock_s=clock)
    budget.set_aside(Reserve.RACE, 3)
    clock.now_s += 1
    first = budget.part(2)
    assert (first.left_s, first.allows(3), first.allows(3.1)) == (3, True, False)
    clock.now_s += 2
    assert (first.left_s, budget.part(1).left_s) == (1, 4)
    clock.now_s += 8
    overdrawn = budget.part(1)
    clock.now_s += 1
    assert not overdrawn.allows(0)
    assert TimeBudget().part(3).left_s == math.inf


def test_it_is_over_when_only_the_end_is_left():
    clock = Clock()
    budget = TimeBudget(10, clock_s=clock)
    budget.set_aside(Reserve.RACE, 2)
    budget.set_aside(Reserve.FILE, 1)
    clock.now_s += 6
    assert (budget.left_s, budget.spare_s, budget.is_over, budget.allows(1)) == (4, 1, False, True)
    clock.now_s += 1
    assert budget.is_over
    with pytest.raises(OutOfTimeError, match="there was no time left to price stages"):
        budget.require_spare("price stages")
    budget.set_aside(Reserve.RACE, 0)
    assert budget.spare_s == 2
    budget.require_spare("price stages")


def test_the_least_is_what_was_spent_and_set_aside_when_it_was_reached():
    clock = Clock()
    budget = TimeBudget(60, clock_s=clock)
    clock.now_s += 5
    budget.set_aside(Reserve.FILE, 1.5)
    budget.reach_least()
    clock.now_s += 5
    budget.set_aside(Reserve.FILE, 9)
    budget.reach_least()
    budget.cut("no list was made")
    budget.cut("no list was made")
    assert budget.notes == (
        "the least this call can take here is 6.5 s",
        "for time_budget=60, no list was made",
    )
    free = TimeBudget(clock_s=clock)
    free.reach_least()
    assert free.notes == ()


def test_it_may_have_begun_before():
    clock = Clock()
    assert TimeBudget(10, spent_s=3, clock_s=clock).left_s == 7
    running = TimeBudget.of(10, clock_s=clock)
    assert TimeBudget.of(running) is running
    assert (running.limit_s, TimeBudget.of(None).limit_s) == (10, None)


def test_a_process_knows_its_age():
    begin_s = time.monotonic()
    code = "from tvm_ios.support.time_budget import process_age_s; print(process_age_s())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < float(done.stdout) <= time.monotonic() - begin_s + 0.02  # of a hundredth of a second


@pytest.mark.parametrize("seconds", [0, -1, math.nan, True, "5"])
def test_no_seconds_are_refused(seconds):
    with pytest.raises(OptionError, match="time_budget is .*give seconds above 0"):
        TimeBudget(seconds)
