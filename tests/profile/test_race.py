"""What tune and the benchmarks share: who is kept after a race, and how long one takes."""

from __future__ import annotations

import random

import pytest

from tvm_ios.measure.compare import CompareOptions, compare
from tvm_ios.measure.comparison import CompareRound, Comparison, Outcome
from tvm_ios.profile.race import choose, race_s
from tvm_ios.report.tune_report import Contestant

NAMES = {contestant: contestant.value for contestant in Contestant}


def raced(**times_ms: float) -> Comparison:
    rounds = tuple(
        CompareRound(
            run_ns=tuple(1e6 * time + i for time in times_ms.values()),
            ping_pong_ns=50.0,
            slow=False,
        )
        for i in range(8)
    )
    return Comparison(names=tuple(times_ms), rounds=rounds, confidence=0.95, notes=())


@pytest.mark.parametrize(
    ("times_ms", "kept"),
    [
        ({"sequential": 2.0, "greedy": 1.5, "ios": 1.0}, Contestant.IOS),
        ({"sequential": 2.0, "greedy": 1.0, "ios": 1.5}, Contestant.GREEDY),
        ({"sequential": 1.0, "greedy": 1.5, "ios": 2.0}, Contestant.SEQUENTIAL),
        ({"sequential": 1.0, "greedy": 1.0, "ios": 1.0}, Contestant.SEQUENTIAL),
        ({"sequential": 2.0, "ios": 1.5, "ios, untuned kernels": 1.0}, Contestant.UNTUNED_IOS),
        ({"sequential": 2.0, "ios": 1.0, "greedy, untuned kernels": 1.5}, Contestant.IOS),
    ],
)
def test_only_what_beats_sequential_order_is_kept(times_ms, kept) -> None:
    names = {contestant: name for contestant, name in NAMES.items() if name in times_ms}
    choice = choose(raced(**times_ms), names)
    assert choice.kept is kept
    if kept is Contestant.SEQUENTIAL:
        assert choice.outcome is Outcome.NO_GAIN
        assert choice.reason.startswith("no gain: nothing is faster")
    else:
        assert choice.outcome is Outcome.FASTER
        assert "times as fast" in choice.reason


def test_sequential_order_needs_no_rival() -> None:
    alone = {Contestant.SEQUENTIAL: "sequential"}
    choice = choose(raced(sequential=1.0), alone)
    assert (choice.kept, choice.outcome) == (Contestant.SEQUENTIAL, Outcome.NO_GAIN)
    assert "nothing but sequential order" in choice.reason


def disturbed(low: float, high: float) -> Comparison:
    """Race in which greedy order and ios are between so many times as fast as sequential order."""
    ratios = [low, *[(low + high) / 2] * 6, high]
    rounds = [
        CompareRound(run_ns=(1e6, 1e6 / ratio, 1e6 / ratio), ping_pong_ns=50.0, slow=False)
        for ratio in ratios
    ]
    busy = CompareRound(run_ns=(1e6, 1e6, 1e6), ping_pong_ns=50.0, slow=True, waited=0.31)
    return Comparison(
        names=("sequential", "greedy", "ios"),
        rounds=(*rounds, *[busy] * 17),
        confidence=0.95,
        notes=(),
        wanted=25,
    )


@pytest.mark.parametrize(
    ("interval", "promised", "kept"),
    [
        ((0.985, 1.2), {"sequential": 100, "greedy": 95, "ios": 80}, Contestant.IOS),
        ((0.985, 1.2), {"sequential": 100, "greedy": 90, "ios": 95}, Contestant.GREEDY),
        ((0.97, 1.2), {"sequential": 100, "greedy": 95, "ios": 80}, Contestant.SEQUENTIAL),
        ((0.985, 1.2), {"sequential": 100, "greedy": 105}, Contestant.SEQUENTIAL),
        ((0.985, 1.2), {}, Contestant.SEQUENTIAL),
    ],
)
def test_an_undecided_race_keeps_what_prices_promise_where_that_costs_little(
    interval, promised, kept
) -> None:
    names = {Contestant(name): name for name in ("sequential", "greedy", "ios")}
    choice = choose(
        disturbed(*interval), names, {Contestant(name): ns for name, ns in promised.items()}
    )
    assert (choice.kept, choice.outcome) == (kept, Outcome.UNDECIDED)
    told = "undecided, for another process had the cores in 17 of 25 rounds (run delay 31 %); "
    assert choice.reason.startswith(told)


def test_the_length_of_a_race_is_known_before() -> None:
    options = CompareOptions(rounds=10, warmup=1, number=1, min_repeat_ms=5.0)
    assert race_s(20_000_000, options) == pytest.approx(4 * (10 + 1) * 0.040)
    assert race_s(1_000_000, options) == pytest.approx(4 * (10 + 1) * 0.006)
    assert race_s(1_000_000, options, contestants=2) == pytest.approx(2 * (10 + 1) * 0.006)


@pytest.mark.parametrize("run_ms", [1, 10, 40, 100, 400, 1000, 2000, 5000])
def test_a_race_that_nothing_decides_is_no_longer_than_was_set_aside(run_ms) -> None:
    noise = random.Random(run_ms)
    now_ns = 0

    def timed(number: int) -> int:
        nonlocal now_ns
        taken = int(number * run_ms * 1e6 * noise.uniform(0.93, 1.07))
        now_ns += taken
        return taken

    contestants = dict.fromkeys(("sequential", "greedy", "list", "ios"), timed)
    compare(contestants, until_decided=True, clock_ns=lambda: now_ns, sleep_s=lambda _: None)
    taken_s = now_ns / 1e9
    expected_s = race_s(run_ms * 1e6, CompareOptions())
    assert 0.2 * expected_s < taken_s < 1.05 * expected_s + 0.2
