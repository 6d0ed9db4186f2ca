"""Races that are kept like prices: strictly read, and only if they were fair."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.known_races import KnownRace, KnownRaces
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.measure.comparison import CompareRound, Comparison

CONTEXT = ProfileContext(device="here", lanes=2, tvm_version="0", kernels="llvm")
NAMES = ("sequential", "ios")
ROUNDS = tuple(
    CompareRound(run_ns=(2e6 + i, 1e6), ping_pong_ns=50.0, slow=i == 3) for i in range(8)
)
RACE = Comparison(names=NAMES, rounds=ROUNDS, confidence=0.95, notes=("1 of 8 rounds",))
PLANS = {"sequential": "one", "ios": "two"}


def kept(**changed: object) -> KnownRace:
    return KnownRace(comparison=replace(RACE, **changed), plans=PLANS)


@pytest.fixture
def database(tmp_path):
    return ProfileDatabase(tmp_path / "prices.sqlite")


def test_a_race_is_known_with_all_its_rounds(database):
    races = KnownRaces(database, CONTEXT)
    assert races.known("id", NAMES) is None
    races.keep("id", kept())
    found = KnownRaces(database, CONTEXT).known("id", NAMES)
    assert found is not None
    assert found.plans == PLANS
    assert replace(found.comparison, notes=()) == replace(RACE, notes=())
    assert found.comparison.notes[:-1] == RACE.notes
    assert "is that of an earlier call (2" in found.comparison.notes[-1]
    assert races.known("another", NAMES) is None
    for other in (replace(CONTEXT, lanes=1), replace(CONTEXT, executor="new")):
        assert KnownRaces(database, other).known("id", NAMES) is None


def test_a_race_in_the_slow_mode_is_not_kept(database):
    races = KnownRaces(database, CONTEXT)
    slow = tuple(replace(round_, slow=i > 4) for i, round_ in enumerate(ROUNDS))
    races.keep("id", kept(rounds=slow))
    assert races.known("id", NAMES) is None


def test_a_race_that_was_not_settled_goes_on(database):
    """Its undisturbed rounds are known, of plans that are the same; a settled one replaces it."""
    races = KnownRaces(database, CONTEXT)
    slow = tuple(replace(round_, slow=i > 4) for i, round_ in enumerate(ROUNDS))
    races.keep("id", kept(rounds=slow, wanted=25))
    assert races.known("id", NAMES) is None
    begun = races.begun("id", PLANS)
    assert begun is not None
    assert begun.rounds == slow[:5]
    assert "5 rounds of the last race are those of an earlier call (2" in begun.notes[0]
    assert races.begun("id", PLANS | {"ios": "three"}) is None
    assert races.begun("another", PLANS) is None
    races.keep("id", kept())
    assert races.known("id", NAMES) is not None


def test_a_few_undisturbed_rounds_that_do_not_decide_are_not_all(database):
    races = KnownRaces(database, CONTEXT)
    unclear = tuple(
        replace(round_, run_ns=(1e6, 1e6 + (-1) ** i * 1e5), slow=i > 5)
        for i, round_ in enumerate(ROUNDS)
    )
    races.keep("id", kept(rounds=unclear, wanted=25))
    assert races.known("id", NAMES) is None
    begun = races.begun("id", PLANS)
    assert begun is not None
    assert begun.rounds == unclear[:6]


def test_a_race_without_an_undisturbed_round_leaves_the_earlier_one(database):
    races = KnownRaces(database, CONTEXT)
    races.keep("id", kept(rounds=ROUNDS[:3], wanted=25))
    races.keep("id", kept(rounds=tuple(replace(each, slow=True) for each in ROUNDS)))
    begun = races.begun("id", PLANS)
    assert begun is not None
    assert len(begun.rounds) == 3


def test_a_later_race_takes_the_place_of_an_earlier_one(database):
    races = KnownRaces(database, CONTEXT)
    races.keep("id", kept())
    races.keep("id", kept(rounds=ROUNDS[:7]))
    found = races.known("id", NAMES)
    assert found is not None
    assert len(found.comparison.rounds) == 7


def damaged(**fields: object) -> str:
    return text_of(race=RACE.as_record() | fields)


def text_of(**fields: object) -> str:
    record = {"raced": "2026-01-01", "race": RACE.as_record(), "plans": PLANS}
    return json.dumps(record | fields)


def with_rounds(**fields: object) -> str:
    rounds = [round_ | fields for round_ in RACE.as_record()["rounds"]]
    return damaged(rounds=rounds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        json.dumps({"race": RACE.as_record(), "plans": PLANS}),
        text_of(raced=3),
        text_of(race=[]),
        text_of(plans=[]),
        text_of(plans={"sequential": "one"}),
        text_of(plans={"sequential": "one", "ios": 2}),
        damaged(names=["ios", "sequential"]),
        damaged(names=[]),
        damaged(confidence="high"),
        damaged(confidence=2),
        damaged(rounds=[]),
        damaged(rounds=RACE.as_record()["rounds"][:2]),
        with_rounds(run_ns=[1.0, 0.0]),
        with_rounds(run_ns=[1.0, -1.0]),
        with_rounds(run_ns=[1.0, "2"]),
        with_rounds(run_ns=[1.0]),
        with_rounds(slow=True),
        with_rounds(slow=0),
        damaged().replace("1000000.0", "NaN"),
    ],
)
def test_a_damaged_race_is_none_and_makes_way(database, text):
    races = KnownRaces(database, CONTEXT)
    database.put_facts(f"race id in {CONTEXT.digest()}", {"rounds": text})
    assert races.known("id", NAMES) is None
    races.keep("id", kept())
    assert races.known("id", NAMES) is not None


def test_a_database_that_cannot_be_used_costs_nothing(tmp_path):
    path = tmp_path / "prices.sqlite"
    broken = KnownRaces(ProfileDatabase(path), CONTEXT)
    path.write_bytes(b"no database" * 1000)
    broken.keep("id", kept())
    assert broken.known("id", NAMES) is None
