from __future__ import annotations

import json
import logging
import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import count, pairwise, permutations
from typing import Any

import pytest

from tests.fake_runner import FakeStageRunner
from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.errors import CostError, LostSessionError, OptionError
from tvm_ios.measure.compare import (
    CompareOptions,
    CompareRound,
    Comparison,
    RaceTooLongError,
    Verdict,
    compare,
)
from tvm_ios.measure.comparison import Outcome
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.support.stored_value import UnreadableValueError, parse_json
from tvm_ios.support.time_budget import TimeBudget

TIMES_NS = {"base": 1e6, "same": 1e6, "quick": 0.8e6, "late": 1.1e6, "last": 1.5e6}
GRAPH = OperatorGraph("g", tuple(map(op, TIMES_NS)))


def race(
    *names: str,
    options: CompareOptions | None = None,
    until_decided: bool = False,
    earlier: tuple[CompareRound, ...] = (),
    **machine: Any,
) -> tuple[Comparison, FakeStageRunner]:
    runner = FakeStageRunner(
        lambda graph, stage: TIMES_NS[graph.operators[stage.operators[0]].workload], **machine
    )

    def timer(name: str) -> Callable[[int], int]:
        index = [operator.name for operator in GRAPH.operators].index(name)
        return runner.prepare(GRAPH, Stage(((index,),))).time_ns

    comparison = compare(
        {name: timer(name) for name in names},
        options=options,
        until_decided=until_decided,
        ping_pong_ns=runner.ping_pong_ns,
        waits=[runner.waited_ns],
        earlier=earlier,
        clock_ns=runner.clock_ns,
        sleep_s=runner.sleep_s,
    )
    return comparison, runner


def test_verdicts_through_noise() -> None:
    comparison, _ = race("base", "same", "quick", "late", noise=0.03, spike_rate=0.05, seed=4)
    verdicts = {n: comparison.speedup(n, over="base").verdict for n in comparison.names}
    assert verdicts == {
        "base": Verdict.TIES,
        "same": Verdict.TIES,
        "quick": Verdict.WINS,
        "late": Verdict.LOSES,
    }
    quick = comparison.speedup("quick", over="base")
    assert quick.ratio == pytest.approx(1.25, rel=0.03)
    assert quick.low < quick.ratio < quick.high
    assert "quick wins over base" in quick.as_text()
    assert comparison.median_ns("quick") == pytest.approx(0.8e6, rel=0.03)


@pytest.mark.slow(1)
def test_equal_contestants_seldom_look_different() -> None:
    """At 95 % confidence about one in twenty may; the seeds are fixed, so this is no gamble."""
    options = CompareOptions(min_repeat_ms=0)
    verdicts = [
        race("base", "same", noise=0.05, seed=seed, options=options)[0]
        .speedup("same", over="base")
        .verdict
        for seed in range(200)
    ]
    wrong = sum(verdict is not Verdict.TIES for verdict in verdicts)
    assert wrong <= 0.08 * len(verdicts)


def test_a_drift_of_the_machine_cancels_out() -> None:
    now = [1.0]
    noise = random.Random(0)

    def timer(run_ns: float) -> Callable[[int], int]:
        def time_ns(number: int) -> int:
            now[0] *= 1.01
            return round(number * run_ns * now[0] * noise.gauss(1, 0.002))

        return time_ns

    comparison = compare({"base": timer(1e7), "quick": timer(0.95e7)})
    speedup = comparison.speedup("quick", over="base")
    assert speedup.verdict is Verdict.WINS
    assert speedup.ratio == pytest.approx(1 / 0.95, rel=0.02)


def test_slow_rounds_are_kept_but_do_not_count() -> None:
    comparison, _ = race("base", "quick", slow_spans_s=[(0.2, 1.0)], slow_factor=1.7)
    slow = [round_ for round_ in comparison.rounds if round_.slow]
    assert slow
    assert len(comparison.used_rounds) == 25
    assert all(round_.ping_pong_ns < 70 for round_ in comparison.used_rounds)
    assert comparison.median_ns("base") == pytest.approx(1e6)
    assert "do not count" in comparison.notes[0]


def test_a_slow_mode_that_stays_is_told() -> None:
    options = CompareOptions(mode=ModeOptions(patience_s=1))
    comparison, runner = race("base", "quick", slow_spans_s=[(0.0, 1e9)], options=options)
    assert len(comparison.used_rounds) >= 25
    assert "measure again" in comparison.notes[0]
    assert runner.clock_ns() / 1e9 < 2
    assert comparison.speedup("quick", over="base").verdict is Verdict.WINS


def test_a_disturbed_sample_is_taken_again_in_its_round() -> None:
    """Another process works for a few milliseconds now and then, which no ping-pong shows."""
    bursts = [(number / 50, number / 50 + 0.004) for number in range(50)]
    comparison, _ = race("base", "quick", busy_spans_s=bursts)
    assert len(comparison.undisturbed_rounds) == 25
    assert len(comparison.rounds) < 30
    assert comparison.median_ns("base") == pytest.approx(1e6)
    assert comparison.is_settled


def test_samples_become_shorter_where_they_are_disturbed() -> None:
    """A time slice is shorter than the usual sample; those of all contestants shrink alike."""
    runs: list[int] = []

    def timer(number: int) -> int:
        runs.append(number)
        waits[0] += 100_000 * number if number > 20 else 0
        return 100_000 * number

    waits = [0]
    found = compare(
        {"one": timer, "other": timer},
        ping_pong_ns=lambda: 50.0,
        waits=[lambda: waits[0]],
        sleep_s=lambda _: None,
    )
    assert len(found.undisturbed_rounds) == 25
    assert len(found.rounds) == 27
    assert runs[-1] == runs[-3] == 14  # from 55 over 28


def test_rounds_beside_another_process_do_not_count() -> None:
    comparison, _ = race("base", "quick", busy_spans_s=[(0.1, 0.4)])
    busy = [round_ for round_ in comparison.rounds if round_.slow]
    assert busy
    assert all(round_.waited == pytest.approx(0.5) for round_ in busy)
    assert len(comparison.used_rounds) == 25
    assert comparison.median_ns("base") == pytest.approx(1e6)
    assert comparison.notes == (f"{comparison.disturbance}; these do not count",)


def test_a_race_beside_a_process_that_stays_is_undecided() -> None:
    options = CompareOptions(mode=ModeOptions(patience_s=1))
    comparison, runner = race(
        "base", "same", busy_spans_s=[(0.14, 1e9)], options=options, noise=0.05
    )
    assert 6 <= len(comparison.undisturbed_rounds) < 19
    assert comparison.wanted == 25
    assert not comparison.is_settled
    assert comparison.outcome(over="base") is Outcome.UNDECIDED
    assert runner.clock_ns() / 1e9 < 3


def test_a_race_goes_on_from_earlier_rounds() -> None:
    """They count, and who had lost in them is not timed again."""
    one = CompareRound(run_ns=(1e6, 0.8e6, None), ping_pong_ns=50.0, slow=False)
    comparison, _ = race(
        "base",
        "quick",
        "last",
        earlier=(replace(one, run_ns=(1e6, 0.8e6, 1.5e6)),) * 6 + (one,) * 14,
    )
    assert len(comparison.rounds) == comparison.wanted == 25
    assert comparison.rivals == ("base", "quick")
    assert comparison.speedup("last", over="base").ratio == pytest.approx(1 / 1.5)


def test_contestants_take_turns_in_being_first() -> None:
    calls: list[str] = []

    def timer(name: str) -> Callable[[int], int]:
        def time_ns(number: int) -> int:
            calls.append(name)
            return number * 10_000_000

        return time_ns

    compare({name: timer(name) for name in "abc"}, options=CompareOptions(warmup=0, rounds=12))
    rounds = calls[6:]
    firsts = rounds[::3]
    assert sorted(firsts) == sorted("abc" * 4)
    assert set(permutations("abc", 2)) <= set(pairwise(rounds))


def read_back(record: dict[str, Any]) -> Comparison:
    return Comparison.from_record(parse_json(json.dumps(record), "the comparison"))


def test_raw_rounds_round_trip_through_json() -> None:
    comparison, _ = race("base", "quick", noise=0.02, slow_spans_s=[(0.2, 0.5)])
    assert read_back(comparison.as_record()) == comparison
    with pytest.raises(UnreadableValueError, match="the comparison lacks the field 'rounds'"):
        read_back({"names": ["a"]})
    for name, value in (("confidence", "0.95"), ("names", "ab"), ("notes", [1])):
        with pytest.raises(UnreadableValueError, match=f"{name}.* is .*; expected"):
            read_back(comparison.as_record() | {name: value})
    slow = comparison.as_record()
    slow["rounds"][0]["run_ns"] = [1.0]
    with pytest.raises(UnreadableValueError, match=r"rounds\[0\].run_ns is .*expected 2 entries"):
        read_back(slow)


def test_text_names_everyone_and_the_notes() -> None:
    comparison, _ = race("base", "quick", slow_spans_s=[(0.2, 0.5)])
    text = comparison.as_text()
    assert "quick: 0.8000 ms, 1.250 (1.250 to 1.250)" in text
    assert "note: " in text


def test_without_ping_pong_no_round_is_slow() -> None:
    comparison = compare({"only": lambda number: number * 10_000_000})
    assert not any(round_.slow or round_.ping_pong_ns for round_ in comparison.rounds)
    assert comparison.notes == ()


def test_a_failing_contestant_is_named() -> None:
    def broken(number: int) -> int:
        raise RuntimeError("lost a worker")

    with pytest.raises(CostError, match="contestant 'ios' failed .*lost a worker"):
        compare({"ios": broken})
    with pytest.raises(CostError, match="contestant 'ios': 1 runs took 0 ns"):
        compare({"ios": lambda number: 0})


def test_a_device_that_is_lost_is_told_as_such() -> None:
    def lost(number: int) -> int:
        raise LostSessionError("board 7 was lost")

    with pytest.raises(LostSessionError, match=r"^board 7 was lost$"):
        compare({"ios": lost})


def test_unknown_and_missing_contestants_are_refused() -> None:
    comparison, _ = race("base")
    with pytest.raises(OptionError, match="no contestant is named 'ios'; there are base"):
        comparison.speedup("ios", over="base")
    with pytest.raises(OptionError, match="nothing to compare"):
        compare({})


@pytest.mark.parametrize(
    "values",
    [
        {"rounds": 5},
        {"warmup": -1},
        {"number": 0},
        {"min_repeat_ms": math.nan},
        {"confidence": 1.0},
        {"confidence": 0.999, "rounds": 8},
        {"reuse": 1},
        {"longest_s": 0.0},
        {"longest_s": float("inf")},
    ],
)
def test_senseless_options_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        CompareOptions(**values)


def test_a_race_ends_as_soon_as_the_fastest_is_known() -> None:
    clear, _ = race("base", "quick", "late", until_decided=True, noise=0.02, seed=1)
    assert len(clear.rounds) == 10
    assert clear.speedup("quick", over="base").verdict is Verdict.WINS
    equal, _ = race("base", "same", until_decided=True, noise=0.001, seed=1)
    assert len(equal.rounds) == 10  # alike within a hundredth
    assert equal.speedup("same", over="base").verdict is Verdict.TIES
    unclear, _ = race("base", "same", until_decided=True, noise=0.1, seed=1)
    assert len(unclear.rounds) == 25
    told, _ = race("base", "quick", noise=0.02, seed=1)
    assert len(told.rounds) == 25  # benchmarks take them all


def test_who_has_lost_beyond_doubt_is_not_timed_further(caplog: pytest.LogCaptureFixture) -> None:
    """Two that are alike need all rounds; who loses by a tenth runs ten, by a third six."""
    names = ("base", "same", "late", "last")
    with caplog.at_level(logging.INFO, "tvm_ios"):
        told, _ = race(*names, until_decided=True, noise=0.03, seed=2)
    assert [message.split(", since")[0] for message in caplog.messages] == [
        "not timed any more after 6 rounds",
        "not timed any more after 10 rounds",
    ]
    assert [message.rpartition(": ")[2] for message in caplog.messages] == ["last", "late"]
    timed = {
        name: sum(round_.run_ns[place] is not None for round_ in told.rounds)
        for place, name in enumerate(names)
    }
    assert timed == {"base": 25, "same": 25, "late": 10, "last": 6}
    assert told.rivals == ("base", "same")
    assert told.speedup("last", over="base").verdict is Verdict.LOSES
    assert read_back(told.as_record()) == told
    first, _ = race("last", "same", "base", until_decided=True, noise=0.03, seed=2)
    assert all(round_.run_ns[0] is not None for round_ in first.rounds)  # ratios are over it


def test_the_fastest_is_one_of_those_timed_to_the_end() -> None:
    """The machine slows down after one has lost: his median is the least, and tells nothing."""
    early = [CompareRound(run_ns=(1.0, 1.2), ping_pong_ns=0.0, slow=False)] * 6
    late = [CompareRound(run_ns=(2.0, None), ping_pong_ns=0.0, slow=False)] * 19
    found = Comparison(names=("quick", "lost"), rounds=(*early, *late), confidence=0.95, notes=())
    assert found.median_ns("lost") < found.median_ns("quick")
    assert found.fastest() == "quick"
    assert found.speedup("quick", over="lost").ratio == 1.2


@pytest.mark.parametrize("confidence", [0.95, 0.99])
@pytest.mark.parametrize("quarter_s", range(4, 24))
def test_who_lost_in_slow_rounds_has_a_ratio_when_others_are_fast(
    quarter_s: int, confidence: float
) -> None:
    """Patience is spent, so slow rounds count; then the machine turns fast, or never does."""
    options = CompareOptions(
        min_repeat_ms=100, longest_s=20, confidence=confidence, mode=ModeOptions(patience_s=0.1)
    )
    found, _ = race(
        *("base", "same", "last"),
        options=options,
        until_decided=True,
        slow_spans_s=[(0.0, quarter_s / 4)],
    )
    assert found.speedup("last", over="base").ratio == pytest.approx(1 / 1.5)
    assert found.fastest() != "last"
    assert found.speedup("same", over="base").ratio == pytest.approx(1)


def test_a_race_of_slow_networks_ends_after_its_seconds() -> None:
    options = CompareOptions(longest_s=0.03, warmup=0, min_repeat_ms=0.0)
    short, _ = race("base", "same", options=options, until_decided=True, noise=0.1, seed=1)
    assert 10 <= len(short.rounds) < 25
    options = CompareOptions(longest_s=1e-6, warmup=0, min_repeat_ms=0.0)
    long, _ = race("base", "same", options=options, until_decided=True, noise=0.1, seed=1)
    assert len(long.rounds) == 6  # as a round alone takes that long
    whole, _ = race("base", "same", options=options, noise=0.1, seed=1)
    assert len(whole.rounds) == 25  # benchmarks take them all


def test_a_race_that_there_is_no_time_for_is_refused_by_its_first_run() -> None:
    runs = []
    contestants = {
        name: lambda number, name=name: runs.append(name) or 2_000_000_000 * number
        for name in ("one", "other")
    }
    options = CompareOptions(rounds=9)
    with pytest.raises(RaceTooLongError, match=r"take 24 s, and 23\.9 s are left"):
        compare(contestants, options=options, budget=TimeBudget(23.9, clock_s=lambda: 0.0))
    assert set(runs) == {"one"}
    compare(contestants, options=options, budget=TimeBudget(24.1, clock_s=lambda: 0.0))
    assert set(runs) == {"one", "other"}


@pytest.mark.parametrize(("seconds", "rounds"), [(0.5, 1), (30, 4), (200, 9)])
def test_a_race_ends_before_the_round_that_would_be_late(seconds: float, rounds: int) -> None:
    """Runs take two seconds by the clock of the budget; one contestant may race in any case."""
    now_s = [0.0]

    def time_ns(number: int) -> int:
        now_s[0] += 2.0 * number
        return 2_000_000_000 * number

    budget = TimeBudget(seconds, clock_s=lambda: now_s[0])
    options = CompareOptions(rounds=9, warmup=2)
    found = compare({"one": time_ns}, options=options, budget=budget)
    assert len(found.rounds) == rounds
    assert budget.left_s >= (0 if rounds > 1 else -10)
    assert found.interval_ns("one") == (2e9, 2e9)
    assert budget.cuts == (() if rounds == 9 else (f"a race of 1 had {rounds} rounds of 9",))


def test_a_race_may_be_a_moment_late_for_rounds_that_prove_something() -> None:
    now_s = [0.0]

    def time_ns(number: int) -> int:
        now_s[0] += 0.1 * number
        return 100_000_000 * number

    budget = TimeBudget(0.5, clock_s=lambda: now_s[0])
    options = CompareOptions(rounds=9, warmup=0)
    found = compare({"one": time_ns}, options=options, budget=budget)
    assert len(found.rounds) == 6
    assert budget.left_s == pytest.approx(-0.3)


def test_a_race_of_too_few_rounds_proves_nothing() -> None:
    row = CompareRound(run_ns=(2.0, 1.0), ping_pong_ns=0.0, slow=False)
    found = Comparison(names=("base", "other"), rounds=(row,) * 3, confidence=0.95, notes=())
    speedup = found.speedup("other", over="base")
    assert (speedup.low, speedup.ratio, speedup.high) == (2.0, 2.0, 2.0)
    assert speedup.verdict is Verdict.TIES


@pytest.mark.parametrize(
    ("run_ms", "until_decided", "rounds", "runs"),
    [
        ((40, 41), True, 9, (2 + 9, 2 + 9)),
        ((40, 41), False, 9, (2 + 2 * 9, 2 + 2 * 9)),
        ((28, 31), True, 9, (2 + 2 * 9, 2 + 2 * 9)),  # near each other: timed alike
        ((20, 90), True, 6, (2 + 2 * 6, 2 + 6)),
        ((90, 20), True, 6, (2 + 6, 2 + 2 * 6)),
        ((90, 20), False, 9, (2 + 6, 2 + 2 * 9)),  # far off in the first six, and in no other
        ((20, 70), False, 9, (2 + 2 * 9, 2 + 2 * 9)),
    ],
)
def test_long_runs_need_no_warm_up_where_a_race_chooses(
    run_ms: tuple[int, int], until_decided: bool, rounds: int, runs: tuple[int, int]
) -> None:
    """Unless they are near one that does. It is over after six rounds where one is far off."""
    made = [0, 0]

    def timer(place: int) -> Callable[[int], int]:
        def time_ns(number: int) -> int:
            made[place] += number
            return run_ms[place] * 1_000_000 * number

        return time_ns

    comparison = compare(
        {"one": timer(0), "other": timer(1)},
        options=CompareOptions(rounds=9),
        until_decided=until_decided,
    )
    assert (len(comparison.rounds), tuple(made)) == (rounds, runs)
    assert comparison.fastest() == ("one" if run_ms[0] < run_ms[1] else "other")


def test_a_first_contestant_that_is_far_off_is_timed_six_times() -> None:
    runs_ms = {"first": 900, "one": 100, "other": 101}
    contestants = {
        name: lambda number, ms=ms: ms * 1_000_000 * number for name, ms in runs_ms.items()
    }
    options = CompareOptions(rounds=12, confidence=0.9)
    found = compare(contestants, options=options, until_decided=True)
    timed = [sum(each.run_ns[place] is not None for each in found.rounds) for place in range(3)]
    assert timed == [6, 10, 10]
    assert found.speedup("other", over="first").ratio == pytest.approx(900 / 101)


def test_a_race_does_not_end_early_on_a_few_fast_rounds() -> None:
    """Four slow rounds are taken as patience is none, six fast ones follow: ten, but not of use."""
    seen, seconds = iter([380.0] * 4 + [50.0] * 100), count()
    comparison = compare(
        {"base": lambda number: 2_000_000 * number, "quick": lambda number: 1_000_000 * number},
        options=CompareOptions(rounds=25, mode=ModeOptions(patience_s=0.0)),
        until_decided=True,
        ping_pong_ns=lambda: next(seen),
        clock_ns=lambda: next(seconds) * 10**9,
    )
    fast = [round_ for round_ in comparison.rounds if not round_.slow]
    assert 0 < len(comparison.rounds) - len(fast) < 10
    assert len(fast) >= 10
    assert comparison.speedup("quick", over="base").verdict is Verdict.WINS


def test_rounds_that_are_dropped_do_not_end_a_race() -> None:
    """The machine turns slow within each of the first four rounds."""
    seen, seconds = iter([50.0, *[380.0, 50.0] * 4, *[50.0] * 100]), count()
    comparison = compare(
        {"base": lambda number: 2_000_000 * number, "other": lambda number: 2_000_000 * number},
        options=CompareOptions(longest_s=0.001, mode=ModeOptions(patience_s=1e6)),
        until_decided=True,
        ping_pong_ns=lambda: next(seen),
        clock_ns=lambda: next(seconds) * 10**9,
        sleep_s=lambda _: None,
    )
    assert [each.slow for each in comparison.rounds] == [True] * 4 + [False] * 6
    assert comparison.is_quiet


def test_a_race_takes_the_rounds_that_its_confidence_needs() -> None:
    options = CompareOptions(confidence=0.99, longest_s=1e-6, warmup=0, min_repeat_ms=0.0)
    found, _ = race("base", "same", options=options, until_decided=True, noise=0.1, seed=1)
    assert len(found.rounds) == 8
    assert found.speedup("same", over="base").verdict is Verdict.TIES
    far, _ = race("quick", "last", options=options, until_decided=True)
    assert far.speedup("last", over="quick").verdict is Verdict.LOSES


@pytest.mark.slow(1)
def test_early_ends_rarely_fool_anybody() -> None:
    fooled = sum(
        race("base", "same", until_decided=True, noise=0.05, seed=seed)[0]
        .speedup("same", over="base")
        .verdict
        is not Verdict.TIES
        for seed in range(200)
    )
    assert fooled <= 2 * 0.065 * 200
