from __future__ import annotations

from itertools import chain, repeat

import pytest

from tvm_ios.errors import OptionError
from tvm_ios.measure.machine_mode import ModeOptions, ModeWatch, Patience
from tvm_ios.support.time_budget import TimeBudget


class Clock:
    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


def watch_of(
    *readings: float,
    clock: Clock | None = None,
    options: ModeOptions | None = None,
    patience: Patience | None = None,
) -> ModeWatch:
    """A watch that sees these ping-pongs; the last one lasts for ever."""
    clock = clock or Clock()
    source = chain(readings, repeat(readings[-1]))
    return ModeWatch(
        lambda: next(source),
        options or ModeOptions(),
        patience=patience,
        clock_ns=clock,
        sleep_s=clock.sleep,
    )


def test_slow_against_the_best_of_the_session() -> None:
    watch = watch_of(30, 25, 130, 90, 190, 28)
    assert [watch.look() for _ in range(6)] == [False, False, True, False, True, False]
    assert watch.fast_ns == 28


def test_a_few_odd_readings_do_not_make_the_usual_ones_slow() -> None:
    """Seen on a real machine: 40 in 1,000 readings at 24 ns, all others at 45 to 65."""
    watch = watch_of(*[52, 61, 24, 60, 63] * 3, *[61, 52, 60, 63, 24, 61, 58] * 20)
    looks = [watch.look() for _ in range(155)]
    assert sum(looks) <= 1
    assert not any(looks[5:])
    assert watch.fast_ns >= 52


def slow_round(watch: ModeWatch, clock: Clock | None = None, seconds: float = 0) -> bool:
    """True if a round of so many seconds was slow."""
    with watch.round() as round_:
        if clock is not None:
            clock.sleep(seconds)
    return round_.slow


def test_slow_from_the_start_shows_by_the_absolute_limit() -> None:
    assert watch_of(380).look()
    assert not watch_of(380, options=ModeOptions(slow_ns=0)).look()


@pytest.mark.parametrize("reading", [0.0, -1.0, float("nan")])
def test_no_reading_is_never_slow(reading: float) -> None:
    watch = watch_of(50, reading)
    watch.look()
    assert not watch.look()
    assert watch.last_ns == 0


def test_a_round_is_slow_if_either_end_is() -> None:
    watch = watch_of(50, 50, 380, 50, 50)
    watch.look()
    assert not slow_round(watch)
    assert slow_round(watch)
    assert not slow_round(watch)


def test_waits_until_the_machine_is_fast_again() -> None:
    clock = Clock()
    watch = watch_of(50, *[380] * 5, 50, clock=clock)
    watch.look()
    watch.look()
    with watch.round() as round_:
        pass
    assert (round_.slow, round_.ping_pong_ns) == (False, 50)
    assert 0 < clock.now_ns / 1e9 < 1
    assert watch.patience_left_s == pytest.approx(20 - clock.now_ns / 1e9)


def test_patience_is_bounded_for_the_whole_session() -> None:
    clock = Clock()
    watch = watch_of(380, clock=clock, options=ModeOptions(patience_s=3))
    watch.look()
    assert slow_round(watch)
    assert not watch.patient
    assert clock.now_ns / 1e9 == pytest.approx(3)
    assert slow_round(watch)
    assert clock.now_ns / 1e9 == pytest.approx(3)


def test_what_one_watch_has_spent_is_gone_for_the_next_one_too() -> None:
    clock, patience = Clock(), Patience()
    brief, usual = ModeOptions(patience_s=5), ModeOptions(patience_s=20)
    for options, spent_s in [(usual, 20), (brief, 20), (usual, 20)]:
        watch = watch_of(380, clock=clock, options=options, patience=patience)
        watch.look()
        assert [slow_round(watch, clock, 2) for _ in range(3)] == [True] * 3
        assert patience.spent_ns / 1e9 == spent_s
    assert clock.now_ns / 1e9 == pytest.approx(20 + 9 * 2)
    patience.renew()
    first = watch_of(380, clock=clock, options=brief, patience=patience)
    second = watch_of(380, clock=clock, options=usual, patience=patience)
    first.look()
    slow_round(first)
    assert (first.patient, second.patient) == (False, True)
    assert second.patience_left_s == pytest.approx(15)


def test_a_machine_that_flips_in_every_round_spends_patience_too() -> None:
    clock = Clock()
    watch = watch_of(*[50, 380] * 40, clock=clock, options=ModeOptions(patience_s=2))
    watch.look()
    rounds = 0
    while watch.patient:
        slow_round(watch, clock, 0.5)
        rounds += 1
    assert rounds <= 5


def test_without_patience_a_slow_look_is_good_for_a_second() -> None:
    clock = Clock()
    watch = watch_of(380, 380, 50, clock=clock, options=ModeOptions(patience_s=0))
    clock.sleep(10)
    assert [watch.look() for _ in range(9)] == [True] * 9
    clock.sleep(1)
    assert watch.look()
    clock.sleep(1)
    assert not watch.look()


@pytest.mark.parametrize(
    "values",
    [{"slow_ratio": 1.0}, {"slow_ratio": float("nan")}, {"slow_ns": -1}, {"patience_s": -1}],
)
def test_senseless_options_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(OptionError, match=next(iter(values))):
        ModeOptions(**values)


def test_patience_ends_with_the_time_budget() -> None:
    clock = Clock()
    budget = TimeBudget(3.0, clock_s=lambda: clock.now_ns / 1e9)
    watch = ModeWatch(
        lambda: 1000.0, ModeOptions(), budget=budget, clock_ns=clock, sleep_s=clock.sleep
    )
    watch.look()
    assert watch.patience_left_s == 3.0
    with watch.round() as round_:
        pass
    assert round_.slow
    assert not watch.patient
    assert clock.now_ns == pytest.approx(3e9)
