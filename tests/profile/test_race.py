"""The race that ends a call: run once for everything it depends on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm

from tvm_ios.compile.model import build_model, lower_schedule
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.known_races import KnownRaces
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.profile import race as race_module
from tvm_ios.profile.race import last_race, race_identity
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule

TARGET = "llvm -opt-level=0"  # LLVM need not optimise what nobody runs
CONTEXT = ProfileContext(device="here", lanes=2, tvm_version="0", kernels="llvm")
OPTIONS = CompareOptions()


@pytest.fixture(scope="module")
def built(branching):
    return build_model(*branching, TARGET)


def racers(built, *, lanes=2, unsplit=(), schedule=greedy_schedule):
    in_order = sequential_schedule(built.graph)
    schedules = {
        "sequential": replace(in_order, unsplit=unsplit),
        "greedy": schedule(built.graph),
    }
    return {name: lower_schedule(built, each, lanes=lanes) for name, each in schedules.items()}


@pytest.fixture(scope="module")
def models(built):
    return racers(built)


@pytest.fixture(scope="module")
def identity(models):
    return race_identity(models, OPTIONS)


def test_equal_races_of_two_builds_have_one_identity(branching, identity):
    assert identity is not None
    again = racers(build_model(*branching, TARGET))
    assert race_identity(again, replace(OPTIONS, reuse=False)) == identity


def test_another_kernel_is_another_race(branching, identity):
    with tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True}):
        scalar = racers(build_model(*branching, TARGET))
    assert race_identity(scalar, OPTIONS) not in (None, identity)


def test_another_code_generator_is_another_race(branching, identity):
    other = racers(build_model(*branching, f"{TARGET} -mcpu=skylake"))
    assert race_identity(other, OPTIONS) not in (None, identity)


def test_kernels_that_passes_of_the_user_may_change_have_no_identity(branching):
    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def untouched(function, _module, _context):
        return function

    with tvm.transform.PassContext(opt_level=3, config={"tir.add_lower_pass": [(3, untouched)]}):
        own = racers(build_model(*branching, TARGET))
    assert race_identity(own, OPTIONS) is None


@pytest.mark.parametrize(
    "changed", [{"lanes": 1}, {"unsplit": (0,)}, {"schedule": sequential_schedule}]
)
def test_another_schedule_or_number_of_lanes_is_another_race(built, identity, changed):
    assert race_identity(racers(built, **changed), OPTIONS) not in (None, identity)


@pytest.mark.parametrize(
    "changed",
    [
        {"rounds": 24},
        {"warmup": 2},
        {"min_repeat_ms": 4.0},
        {"confidence": 0.9},
        {"mode": ModeOptions(slow_ns=100.0)},
    ],
)
def test_another_option_or_contestant_is_another_race(models, identity, changed):
    assert race_identity(models, replace(OPTIONS, **changed)) not in (None, identity)
    alone = {"sequential": models["sequential"]}
    assert race_identity(alone, OPTIONS) not in (None, identity)


class Raced:
    """Counts races, each a nanosecond slower than the one before; or raises."""

    def __init__(self) -> None:
        self.count = 0
        self.error: BaseException | None = None

    def __call__(self, models, *, options, until_decided, session):
        del session
        assert until_decided
        if self.error is not None:
            raise self.error
        self.count += 1
        one = CompareRound(run_ns=(2e6 + self.count, 1e6), ping_pong_ns=50.0, slow=False)
        rounds = (one,) * options.rounds
        return Comparison(names=tuple(models), rounds=rounds, confidence=0.95, notes=())


@pytest.fixture
def raced(monkeypatch):
    found = Raced()
    monkeypatch.setattr(race_module, "race", found)
    return found


@pytest.fixture
def run(models, raced, tmp_path):
    races = KnownRaces(ProfileDatabase(tmp_path / "prices.sqlite"), CONTEXT)

    def run(affordable=OPTIONS, **options):
        asked = replace(OPTIONS, **options)
        return last_race(
            models, options=asked, affordable=lambda: affordable, races=races, session=None
        )

    return run


def test_a_race_that_was_run_is_not_run_again(run, raced):
    first, again = run(), run()
    assert raced.count == 1
    assert again.rounds == first.rounds
    assert "earlier call" in again.notes[-1]


def test_a_race_is_run_again_on_demand_and_then_known(run, raced):
    run()
    forced = run(replace(OPTIONS, reuse=False), reuse=False)
    assert raced.count == 2
    assert run().rounds == forced.rounds
    assert raced.count == 2


def test_a_race_that_was_cut_short_or_broken_off_is_not_known(run, raced):
    run(replace(OPTIONS, rounds=6))
    raced.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run()
    raced.error = None
    assert len(run().rounds) == OPTIONS.rounds
    assert raced.count == 2
