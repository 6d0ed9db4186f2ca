"""The race that ends a call: run once for everything it depends on."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import pytest
import tvm

from tvm_ios.compile.built_model import build_model
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.compile.model import CompiledModel
from tvm_ios.cost.database import open_database
from tvm_ios.measure.compare import CompareOptions, RaceTooLongError
from tvm_ios.measure.comparison import CompareRound, Comparison, Outcome
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.measure.patience import Patience
from tvm_ios.profile import last_race
from tvm_ios.profile.last_race import (
    Racer,
    evidence_of,
    fitting_racers,
    race_identity,
    run_last_race,
)
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.report.tune_report import Contestant
from tvm_ios.runtime.artifact.evidence import TracedRuns
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.support.time_budget import Reserve, TimeBudget

TARGET = "llvm -opt-level=0"  # LLVM need not optimise what nobody runs
OPTIONS = CompareOptions()


@pytest.fixture(scope="module")
def built(branching):
    return build_model(*branching, TARGET)


def racers(built, *, unsplit=(), greedy=greedy_schedule, records=""):
    schedules = {
        Contestant.SEQUENTIAL: replace(sequential_schedule(built.graph), unsplit=unsplit),
        Contestant.GREEDY: greedy(built.graph),
    }
    return {
        who: Racer(
            built=built,
            schedule=schedule,
            records=records,
            lower=partial(lower_schedule, built, lanes=2),
        )
        for who, schedule in schedules.items()
    }


@pytest.fixture(scope="module")
def identity(built):
    return race_identity(racers(built), OPTIONS)


@pytest.mark.slow(1)
def test_equal_races_of_two_builds_have_one_identity(branching, identity):
    assert identity is not None
    again = racers(build_model(*branching, TARGET))
    assert race_identity(again, replace(OPTIONS, reuse=False)) == identity


@pytest.mark.slow(1)
def test_another_kernel_is_another_race(branching, identity):
    with tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True}):
        scalar = racers(build_model(*branching, TARGET))
    assert race_identity(scalar, OPTIONS) not in (None, identity)


@pytest.mark.slow(1)
def test_another_code_generator_is_another_race(branching, identity):
    other = racers(build_model(*branching, f"{TARGET} -mcpu=skylake"))
    assert race_identity(other, OPTIONS) not in (None, identity)


@pytest.mark.slow(1)
def test_kernels_that_passes_of_the_user_may_change_have_no_identity(branching):
    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def untouched(function, _module, _context):
        return function

    with tvm.transform.PassContext(opt_level=3, config={"tir.add_lower_pass": [(3, untouched)]}):
        own = racers(build_model(*branching, TARGET))
    assert race_identity(own, OPTIONS) is None


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    "changed", [{"unsplit": (0,)}, {"greedy": sequential_schedule}, {"records": "new"}]
)
def test_another_schedule_or_record_is_another_race(built, identity, changed):
    assert race_identity(racers(built, **changed), OPTIONS) not in (None, identity)


@pytest.mark.parametrize(
    "changed",
    [
        {"rounds": 24},
        {"warmup": 2},
        {"number": 2},
        {"min_repeat_ms": 4.0},
        {"confidence": 0.9},
        {"mode": ModeOptions(slow_ns=100.0)},
    ],
)
def test_another_option_is_another_race(built, identity, changed):
    changed = race_identity(racers(built), replace(OPTIONS, **changed))
    assert changed not in (None, identity)


def test_other_contestants_are_another_race(built, identity):
    in_order = {Contestant.SEQUENTIAL: racers(built)[Contestant.SEQUENTIAL]}
    assert race_identity(in_order, OPTIONS) not in (None, identity)


@dataclass(frozen=True)
class Library:
    """All that a race asks of a library."""

    version: str

    def identity(self) -> str:
        return f"library-{self.version}"


def test_another_version_of_a_library_is_another_race(built, identity):
    found = {
        race_identity(racers(replace(built, libraries=libraries)), OPTIONS)
        for libraries in ((), (Library("1"),), (Library("2"),), (Library("1"), Library("2")))
    }
    assert identity in found
    assert len(found) == 4
    assert None not in found


@dataclass
class Clocked:
    """A race whose rounds the test makes up; greedy order is the faster one."""

    error: BaseException | None = None
    run: int = 0
    run_ns: tuple[float, float] = (2e6, 1e6)

    disturbed: int = 0
    """Number of rounds in which another process has the cores."""
    earlier: tuple[CompareRound, ...] = ()
    """Rounds that the race was begun with."""

    def __call__(self, models, *, options, until_decided, budget, session, earlier=()):
        del session
        self.earlier = earlier
        if budget.is_limited and budget.is_over:
            budget.cut("a race of 2 had 6 rounds of 25")
            options = replace(options, rounds=6)
        assert until_decided
        if self.error is not None:
            raise self.error
        self.run += 1
        one = CompareRound(run_ns=self.run_ns, ping_pong_ns=50.0, slow=False)
        busy = replace(one, slow=True, waited=0.5)
        new = options.rounds - len(earlier) - self.disturbed
        return Comparison(
            names=tuple(models),
            rounds=(*earlier, *[one] * new, *[busy] * self.disturbed),
            confidence=0.95,
            notes=(),
            wanted=options.rounds,
        )


@pytest.fixture
def clocked(monkeypatch):
    found = Clocked()
    monkeypatch.setattr(last_race, "race", found)
    return found


@pytest.fixture
def call(tmp_path):
    return MeasuringCall.here(lanes=1, database=tmp_path / "prices.sqlite", compare=OPTIONS)


SESSION = SimpleNamespace(patience=Patience(), in_stage=lambda _: nullcontext())


def run(racers, call):
    return run_last_race(racers, SESSION, call)


def compiled(racers):
    return {who: racer.compiled.cache_info().currsize for who, racer in racers.items()}


BOTH = {Contestant.SEQUENTIAL: 1, Contestant.GREEDY: 1}


def test_of_a_known_race_only_the_winner_is_compiled(built, clocked, call):
    first = run(racers(built), call)
    again = racers(built)
    known = run(again, call)
    assert known.fastest() == Contestant.GREEDY.value
    assert known.rounds == first.rounds
    assert "earlier call" in known.notes[-1]
    assert compiled(again) == {Contestant.SEQUENTIAL: 0, Contestant.GREEDY: 1}
    assert clocked.run == 1


def test_a_race_is_run_anew_where_earlier_ones_do_not_count(built, clocked, call):
    run(racers(built), call)
    again = racers(built)
    run(again, replace(call, compare=replace(OPTIONS, reuse=False)))
    assert compiled(again) == BOTH
    assert clocked.run == 2


def test_a_race_without_an_identity_is_not_known(built, clocked, call, monkeypatch):
    monkeypatch.setattr(last_race, "race_identity", lambda *_: None)
    for number in (1, 2):
        run(racers(built), call)
        assert clocked.run == number


def test_a_plan_that_is_not_the_one_that_raced_is_not_known(built, clocked, call):
    run(racers(built), call)
    found = racers(built)
    in_order = found[Contestant.SEQUENTIAL]
    lowered_otherwise = replace(found[Contestant.GREEDY], lower=lambda _: in_order.compiled())
    run(found | {Contestant.GREEDY: lowered_otherwise}, call)
    assert clocked.run == 2


def test_a_race_that_was_broken_off_is_not_known(built, clocked, call):
    clocked.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        run(racers(built), call)
    clocked.error = None
    again = racers(built)
    run(again, call)
    assert compiled(again) == BOTH
    assert clocked.run == 1


def test_a_race_that_was_cut_short_is_not_known(built, clocked, call):
    hurried = replace(call, budget=TimeBudget(1e-6))
    run(racers(built), hurried)
    assert hurried.budget.cuts == ("a race of 2 had 6 rounds of 25",)
    run(racers(built), call)
    assert clocked.run == 2


def test_where_no_rival_has_time_sequential_order_is_timed_alone(built, call, monkeypatch):
    def race(models, *, options, until_decided, budget, session, earlier=()):
        del options, until_decided, session, earlier
        if len(models) > 1:
            raise RaceTooLongError(60.0, budget.spare_s)
        one = CompareRound(run_ns=(2e6,), ping_pong_ns=50.0, slow=False)
        return Comparison(names=tuple(models), rounds=(one,), confidence=0.95, notes=())

    monkeypatch.setattr(last_race, "race", race)
    monkeypatch.setattr(last_race, "_traced_runs", lambda *_: TracedRuns())
    call = replace(call, budget=TimeBudget(20))
    found = racers(built)
    raced = run(found, call)
    assert raced.names == (Contestant.SEQUENTIAL.value,)
    evidence = evidence_of(raced, found, SESSION, replace(call, budget=call.budget), ())
    assert evidence.kept == Contestant.SEQUENTIAL.value
    assert evidence.reason.startswith("nothing else was raced within the time budget")
    assert "the least rounds of the race take 60 s" in call.budget.notes[0]


def test_the_most_promising_contestants_race_where_time_is_short(built, call):
    call = replace(call, budget=TimeBudget(1.0, clock_s=lambda: 0.0))
    call.budget.set_aside(Reserve.RACE, 0.9)
    found = racers(built)
    assert fitting_racers(found, 10_000_000, call) == found
    assert call.budget.spare_s == 1.0
    only = fitting_racers(found, 1_000_000_000, call)
    assert set(only) == {Contestant.SEQUENTIAL}
    assert call.budget.cuts == ("the last race was without greedy",)


def test_a_race_on_a_disturbed_machine_goes_on_in_the_next_call(built, clocked, call):
    clocked.disturbed = 22
    first = run(racers(built), call)
    assert not first.is_settled
    assert call.database.use.doubtful
    clocked.disturbed = 0
    later = replace(call, database=open_database(call.database.path))
    second = run(racers(built), later)
    assert clocked.earlier == first.undisturbed_rounds
    assert len(clocked.earlier) == 3
    assert "3 rounds of the last race are those of an earlier call" in second.notes[0]
    assert second.is_settled
    assert not later.database.use.doubtful
    run(racers(built), later)
    assert clocked.run == 2


def test_a_disturbed_race_is_begun_anew_where_earlier_ones_do_not_count(built, clocked, call):
    clocked.disturbed = 22
    run(racers(built), call)
    run(racers(built), replace(call, compare=replace(OPTIONS, reuse=False)))
    assert clocked.earlier == ()


@pytest.mark.parametrize(
    ("changed", "promised_ns"),
    [
        ({"prices_ns": (3, 4)}, 7),
        ({"prices_ns": (3, None)}, None),
        ({}, None),
        ({"prices_ns": (3, None), "latency_ns": 9}, 9),
        ({"latency_ns": 9}, None),  # other kernels than were priced
    ],
)
def test_what_prices_promise_of_a_run(built, changed, promised_ns):
    racer = racers(built)[Contestant.GREEDY]
    latency_ns = changed.pop("latency_ns", None)
    schedule = replace(racer.schedule, latency_ns=latency_ns)
    assert replace(racer, schedule=schedule, **changed).promised_ns == promised_ns


@pytest.mark.parametrize("budget_s", [1e-6, None])
def test_evidence_has_the_winner_and_its_runs_where_there_is_time(
    built, clocked, call, monkeypatch, budget_s
):
    clocked.run_ns = (2e9, 1e9)
    traced: list[CompiledModel] = []

    def traced_runs(model, _session):
        traced.append(model)
        return TracedRuns(runs=7)

    monkeypatch.setattr(last_race, "_traced_runs", traced_runs)
    found = racers(built)
    found[Contestant.GREEDY] = replace(found[Contestant.GREEDY], prices_ns=(3, None))
    call = replace(call, budget=TimeBudget(budget_s))
    raced = run(found, call)
    evidence = evidence_of(raced, found, SESSION, call, ())
    assert (evidence.kept, evidence.race) == (Contestant.GREEDY.value, raced)
    assert evidence.outcome is Outcome.FASTER
    assert evidence.prices_ns == (3, None)
    assert evidence.traced.runs == (7 if traced else 0)
    assert traced == ([found[Contestant.GREEDY].compiled()] if budget_s is None else [])
    assert any("no run was traced" in note for note in call.budget.notes) == (budget_s is not None)
