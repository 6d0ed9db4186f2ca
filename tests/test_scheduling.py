"""What tune, the benchmarks and the pass share: options, and who is kept after a race."""

from __future__ import annotations

import pytest

from tvm_ios.core.endings import EndingRule
from tvm_ios.core.schedule import Strategy
from tvm_ios.cost.comparison import CompareRound, Comparison
from tvm_ios.errors import OptionError
from tvm_ios.scheduling import (
    choose,
    measured_search_options,
    require_time_budget,
)
from tvm_ios.tune_report import Contestant

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
    ],
)
def test_only_what_beats_sequential_order_is_kept(times_ms, kept) -> None:
    chosen, reason = choose(raced(**times_ms), NAMES)
    assert chosen is kept
    expected = "nothing is faster" if kept is Contestant.SEQUENTIAL else "times as fast"
    assert expected in reason


def test_sequential_order_needs_no_rival() -> None:
    alone = {Contestant.SEQUENTIAL: "sequential"}
    kept, reason = choose(raced(sequential=1.0), alone)
    assert kept is Contestant.SEQUENTIAL
    assert "nothing but sequential order" in reason


def test_options_are_taken_by_name_and_by_member() -> None:
    by_name = measured_search_options(strategies="merge", endings="published")
    by_member = measured_search_options(strategies=[Strategy.MERGE], endings=EndingRule.PUBLISHED)
    assert by_name == by_member
    assert measured_search_options().strategies == frozenset(Strategy)
    assert measured_search_options().pad_merged_kernels
    assert not measured_search_options(pad_merged_kernels=False).pad_merged_kernels


@pytest.mark.parametrize("budget", [0, -1.0, float("nan"), True, "soon"])
def test_a_time_budget_is_some_seconds(budget) -> None:
    require_time_budget(None)
    require_time_budget(0.5)
    with pytest.raises(OptionError, match="time_budget is"):
        require_time_budget(budget)
