"""A profile database as one call sees it: with all that is there, or as if nothing were."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tvm_ios.cost.call_database import FreshDatabase, database_for_call
from tvm_ios.cost.database import PriceRecord, ProfileDatabase
from tvm_ios.cost.database_use import Remembered
from tvm_ios.cost.known_choices import BuildChoice, KnownChoices
from tvm_ios.cost.profile_key import ProfileContext

CONTEXT = ProfileContext(device="here", lanes=2, tvm_version="0", kernels="llvm")
GOOD = PriceRecord(
    median_ns=100, samples=15, spread_ns=1, slow_mode=False, measured_at_s=1_000_000.0
)


@pytest.fixture
def database(tmp_path):
    return ProfileDatabase(tmp_path / "prices.sqlite")


def test_a_call_takes_what_is_there_and_its_use_is_its_own(database):
    database.put_many(CONTEXT, {"stage": GOOD})
    database.use.take(Remembered.PRICE, "of another call", "2026-01-01")
    call = database_for_call(database)
    assert call.get_many(CONTEXT, ["stage"]) == {"stage": GOOD}
    call.use.take(Remembered.PRICE, "stage", "2026-01-02")
    assert "2026-01-02: 1 price;" in call.use.as_text(call.path)


def test_a_fresh_call_finds_nothing_and_what_it_measures_takes_the_place(database):
    database.put_many(CONTEXT, {"stage": GOOD, "other": GOOD})
    database.put_facts("subject", {"name": "old", "other": "old"})
    fresh = database_for_call(database, fresh=True)
    assert isinstance(fresh, FreshDatabase)
    assert fresh.get_many(CONTEXT, ["stage"]) == {}
    assert fresh.get_facts("subject", ["name"]) == {}
    # A worse measurement, which would not replace the old one by itself.
    worse = replace(GOOD, median_ns=300, samples=2, measured_at_s=time.time())
    fresh.put_many(CONTEXT, {"stage": worse})
    fresh.put_facts("subject", {"name": "new"})
    assert fresh.get_many(CONTEXT, ["stage", "other"]) == {"stage": worse}
    assert fresh.get_facts("subject", ["name", "other"]) == {"name": "new"}
    assert database.get_many(CONTEXT, ["stage", "other"]) == {"stage": worse, "other": GOOD}
    assert database.get_facts("subject", ["name", "other"]) == {"name": "new", "other": "old"}


def test_within_a_fresh_call_the_better_measurement_stays(database):
    fresh = database_for_call(database, fresh=True)
    now = replace(GOOD, measured_at_s=time.time())
    fresh.put_many(CONTEXT, {"stage": now})
    fresh.put_many(CONTEXT, {"stage": replace(now, median_ns=300, slow_mode=True)})
    assert fresh.get_many(CONTEXT, ["stage"]) == {"stage": now}
    fresh.put_facts("subject", {"name": "first"})
    fresh.put_facts("subject", {"name": "second"})
    assert fresh.get_facts("subject", ["name"]) == {"name": "first"}


def test_a_choice_is_made_anew_and_kept(database):
    old = BuildChoice(kept="a", notes=(), certain=True)
    KnownChoices(database, CONTEXT).keep("which", old)
    fresh = KnownChoices(database_for_call(database, fresh=True), CONTEXT)
    assert fresh.known("which") is None
    fresh.keep("which", replace(old, kept="b"))
    for choices in (fresh, KnownChoices(database, CONTEXT)):
        found = choices.known("which")
        assert found is not None
        assert found.kept == "b"


def test_what_is_noted_is_no_choice(database):
    call = database_for_call(database)
    choices = KnownChoices(call, CONTEXT)
    assert not choices.is_noted("kernels of a model")
    choices.note("kernels of a model")
    assert KnownChoices(database, CONTEXT).is_noted("kernels of a model")
    assert "measured now: nothing" in call.use.as_text(call.path)
    assert not KnownChoices(None, CONTEXT).is_noted("anything")
