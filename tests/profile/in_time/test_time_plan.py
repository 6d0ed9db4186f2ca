"""What a call with a time budget plans: pure numbers."""

from __future__ import annotations

import pytest

from tvm_ios.measure.compare import CompareOptions
from tvm_ios.profile.in_time.time_plan import (
    PROMISING,
    fitting,
    least_race_s,
    race_reserve_s,
    ways_s,
)
from tvm_ios.profile.race import race_s
from tvm_ios.report.contestants import Contestant

OPTIONS = CompareOptions()
ALL = (Contestant.SEQUENTIAL, Contestant.GREEDY, Contestant.IOS, Contestant.IOS_LIST)
RUN_NS = 50_000_000


def test_every_contestant_has_its_worth():
    assert set(PROMISING) == set(Contestant)
    assert len(PROMISING) == len(Contestant)


def test_the_least_race_is_six_rounds_and_a_look():
    assert least_race_s(RUN_NS, OPTIONS, contestants=1) == pytest.approx(8 * 0.05)
    assert least_race_s(RUN_NS, OPTIONS, contestants=2, made_s=0.5) == pytest.approx(16 * 0.05 + 1)


@pytest.mark.parametrize("spare_s", [0.0, 1.0, 6.0, 60.0])
def test_a_race_is_set_aside_for_from_the_least_to_the_usual(spare_s):
    reserve_s = race_reserve_s(spare_s, RUN_NS, OPTIONS, contestants=4, made_s=0.1)
    least_s = least_race_s(RUN_NS, OPTIONS, contestants=2, made_s=0.1)
    usual_s = race_s(RUN_NS, OPTIONS) + 0.4
    assert reserve_s == pytest.approx(min(usual_s, max(least_s, spare_s / 3)))
    assert least_s <= reserve_s <= usual_s


@pytest.mark.parametrize(
    ("spare_s", "left"),
    [
        (0.1, {Contestant.SEQUENTIAL}),
        (0.9, {Contestant.SEQUENTIAL, Contestant.IOS_LIST}),
        (1.3, {Contestant.SEQUENTIAL, Contestant.IOS_LIST, Contestant.IOS}),
        (1.7, set(ALL)),
        (float("inf"), set(ALL)),
    ],
)
def test_the_least_promising_contestants_go_first(spare_s, left):
    assert set(fitting(ALL, spare_s, RUN_NS, OPTIONS, made_s=0.0)) == left


def test_ways_are_compiled_traced_and_raced():
    raced_s = least_race_s(RUN_NS, OPTIONS, contestants=4)
    found_s = ways_s(RUN_NS, OPTIONS, ways=4, traced_s=3.0, made_s=0.5)
    assert found_s == pytest.approx(5.0 + raced_s)
