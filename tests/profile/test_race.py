"""What tune and the benchmarks share: who is kept after a race, and how long one takes."""

from __future__ import annotations

import pytest

from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import CompareRound, Comparison
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
    chosen, reason = choose(raced(**times_ms), names)
    assert chosen is kept
    expected = "nothing is faster" if kept is Contestant.SEQUENTIAL else "times as fast"
    assert expected in reason


def test_sequential_order_needs_no_rival() -> None:
    alone = {Contestant.SEQUENTIAL: "sequential"}
    kept, reason = choose(raced(sequential=1.0), alone)
    assert kept is Contestant.SEQUENTIAL
    assert "nothing but sequential order" in reason


def test_the_length_of_a_race_is_known_before() -> None:
    options = CompareOptions(rounds=10, warmup=1, number=1, min_repeat_ms=5.0)
    assert race_s(20_000_000, options) == pytest.approx(4 * 10 * 0.040)
    assert race_s(1_000_000, options) == pytest.approx(4 * 10 * 0.006)
    assert race_s(1_000_000, options, contestants=2) == pytest.approx(2 * 10 * 0.006)


@pytest.mark.parametrize(
    ("run_ms", "seconds"),
    [
        (10, 25 * 4 * 0.020),
        (40, 25 * 4 * 0.040),  # no warm-up
        (100, 5.0),  # no more rounds after longest_s
        (400, 10 * 4 * 0.4),  # but ten in any case
        (2000, 6 * 4 * 2.0),  # or six, where a round takes longest_s
    ],
)
def test_a_race_is_no_longer_than_it_may_be(run_ms, seconds) -> None:
    assert race_s(run_ms * 1e6, CompareOptions()) == pytest.approx(seconds)
