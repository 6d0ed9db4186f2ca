from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_ios.measure.comparison import CompareRound, Comparison, Disturber, Outcome

QUIET = {"ping_pong_ns": 50.0, "slow": False}
BUSY = {"ping_pong_ns": 50.0, "slow": True, "waited": 0.31}
STOLEN = {"ping_pong_ns": 50.0, "slow": True, "stolen": 0.2}
SLOW = {"ping_pong_ns": 380.0, "slow": True}


def race(
    ratios: list[float], state: dict[str, float] | None = None, *, wanted: int = 0, more: int = 0
) -> Comparison:
    """A race whose second contestant is faster by these ratios, and further rounds in a state."""
    rounds = [CompareRound(run_ns=(1e6 * ratio, 1e6), **QUIET) for ratio in ratios]
    rounds += [CompareRound(run_ns=(1e6, 1e6), **(state or BUSY))] * more
    return Comparison(
        names=("base", "other"), rounds=tuple(rounds), confidence=0.95, notes=(), wanted=wanted
    )


FASTER, EQUAL, UNCLEAR = [1.2, 1.3] * 6, [0.999, 1.001] * 6, [0.95, 1.1] * 6


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (race(FASTER), Outcome.FASTER),
        (race(FASTER, wanted=25, more=13), Outcome.FASTER),
        (race(EQUAL), Outcome.NO_GAIN),
        (race(EQUAL, wanted=25, more=13), Outcome.NO_GAIN),  # a gain is excluded
        (race(UNCLEAR), Outcome.NO_GAIN),  # in as many rounds as were wanted
        (race(UNCLEAR, wanted=12, more=30), Outcome.NO_GAIN),  # those were all taken again
        (race(UNCLEAR, wanted=25, more=13), Outcome.UNDECIDED),
        (race(UNCLEAR[:4], wanted=25, more=21), Outcome.UNDECIDED),
    ],
)
def test_outcomes(found: Comparison, outcome: Outcome) -> None:
    assert found.outcome(over="base") is outcome


def test_a_race_is_settled_where_a_quiet_machine_would_end_it_alike() -> None:
    assert race(UNCLEAR).is_settled
    assert race(FASTER, wanted=25, more=13).is_settled  # decided
    assert not race(UNCLEAR, wanted=25, more=13).is_settled
    assert race(UNCLEAR, wanted=15, more=3).is_settled  # most of what was wanted
    assert not race(FASTER[:5], wanted=25, more=20).is_settled


@pytest.mark.parametrize(
    ("state", "who", "told"),
    [
        (
            BUSY,
            Disturber.PROCESS,
            "another process had the cores in 13 of 25 rounds (run delay 31 %)",
        ),
        (
            STOLEN,
            Disturber.HYPERVISOR,
            "the hypervisor had the cores in 13 of 25 rounds (steal 20 %)",
        ),
        (
            SLOW,
            Disturber.SLOW_MODE,
            "the machine was in its slow mode in 13 of 25 rounds (core-to-core ping-pong 380 ns)",
        ),
    ],
)
def test_a_disturbance_is_told(state: dict[str, float], who: Disturber, told: str) -> None:
    found = race(UNCLEAR, state, more=13)
    assert found.rounds[-1].disturber is who
    assert found.disturbance == told


def test_rounds_of_the_slow_mode_count_before_those_beside_other_processes() -> None:
    busy = CompareRound(run_ns=(9e6, 1e6), **BUSY)
    slow = CompareRound(run_ns=(2e6, 1e6), **SLOW)
    found = replace(
        race(UNCLEAR[:2]), rounds=(slow, busy, slow, busy, slow, slow, busy, slow, slow)
    )
    assert found.used_rounds == (slow,) * 6
    assert not found.is_quiet
    few = replace(found, rounds=(slow, busy, *[busy] * 6))
    assert few.used_rounds == few.rounds


def test_an_undisturbed_race_tells_of_none() -> None:
    assert race(UNCLEAR).rounds[0].disturber is None
    assert race(UNCLEAR).disturbance == ""
