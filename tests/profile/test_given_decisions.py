"""Given decisions race unless they repeat a contestant, and the report says what they brought."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.profile.decisions.given_decisions import GivenDecisions, GivenSchedule
from tvm_ios.profile.last_race import Racer
from tvm_ios.report.contestants import Contestant
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule

CALL = SimpleNamespace(lanes=1, database=None)


def given(built, schedule, file="peer.json"):
    return GivenSchedule(file=file, built=built, schedule=schedule, told="made elsewhere")


def racer(built, schedule):
    return Racer(built=built, schedule=schedule, records="", lower=lambda _: None)


@pytest.fixture
def main(branching_built):
    times = tuple(range(len(branching_built.graph)))
    return SimpleNamespace(built=branching_built, prices=SimpleNamespace(alone_ns=times))


@pytest.mark.slow(1)
def test_twins_do_not_race_and_are_told(branching_built, main):
    graph = branching_built.graph
    listed = replace(sequential_schedule(graph), home_lanes=(0,) * len(graph))
    found = {Contestant.SEQUENTIAL: racer(branching_built, sequential_schedule(graph))}
    decisions = GivenDecisions(
        schedules={
            Contestant.GIVEN: given(branching_built, sequential_schedule(graph)),
            Contestant.GIVEN_2: given(branching_built, listed, "list.json"),
            Contestant.GIVEN_3: given(branching_built, listed, "again.json"),
            Contestant.GIVEN_4: given(replace(branching_built), greedy_schedule(graph), "own.json"),
        },
        unfit=("bad.json: does not race: reasons",),
    )
    racers = decisions.racers(found, main, None, CALL)
    assert list(racers) == [Contestant.GIVEN_2, Contestant.GIVEN_4]
    # Lanes are planned by times of this machine, where there are any.
    assert racers[Contestant.GIVEN_2].schedule.operator_ns == main.prices.alone_ns
    assert racers[Contestant.GIVEN_4].schedule.operator_ns == ()
    one = CompareRound(run_ns=(3e6, 2e6, 6e6), ping_pong_ns=0.0, slow=False)
    names = tuple(who.value for who in (*found, *racers))
    raced = Comparison(names=names, rounds=(one,) * 9, confidence=0.95, notes=())
    assert decisions.outcome(raced, found | racers) == (
        "peer.json: decides as sequential does; made elsewhere",
        "list.json: given decisions 2, 1.500 (1.500 to 1.500) times as fast as sequential, the "
        "best found here without them; made elsewhere",
        "again.json: decides as given decisions 2 does; made elsewhere",
        "own.json: given decisions 4, 0.500 (0.500 to 0.500) times as fast as sequential, the "
        "best found here without them; made elsewhere",
        "bad.json: does not race: reasons",
    )
