from __future__ import annotations

from itertools import chain, count, repeat

import pytest

from tvm_ios.errors import OptionError
from tvm_ios.measure.machine_mode import ModeOptions, ModeWatch
from tvm_ios.measure.patience import Patience
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
    """The last race has what was kept for it, however much the others would have liked to wait."""
    clock, patience = Clock(), Patience(20)
    brief, usual = ModeOptions(patience_s=4), ModeOptions(patience_s=20)
    for options, spent_s in [(brief, 4), (usual, 10), (usual, 10)]:
        watch = watch_of(380, clock=clock, options=options, patience=patience)
        watch.look()
        assert [slow_round(watch, clock, 2) for _ in range(3)] == [True] * 3
        assert patience.spent_ns / 1e9 == spent_s
    assert clock.now_ns / 1e9 == pytest.approx(10 + 9 * 2)
    patience.begin_last_race()
    last = watch_of(380, clock=clock, options=usual, patience=patience)
    assert last.patience_left_s == pytest.approx(10)
    last.look()
    slow_round(last)
    assert (last.patient, patience.spent_ns / 1e9) == (False, 20)


class Lanes:
    """Lanes whose samples take a millisecond, of which they wait as long as the test says."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.waited: int | None = 0

    def waited_ns(self) -> int | None:
        return self.waited

    def sample(self, waited_ns: int = 0) -> int:
        self.clock.sleep(1e-3)
        if self.waited is not None:
            self.waited += waited_ns
        return 1_000_000


def lanes_and_watch(**options: float) -> tuple[Lanes, ModeWatch]:
    lanes = Lanes(Clock())
    watch = ModeWatch(
        lambda: 50.0,
        ModeOptions(**options),
        waited_ns=lanes.waited_ns,
        stolen_ns=lambda: 0,
        clock_ns=lanes.clock,
        sleep_s=lanes.clock.sleep,
    )
    return lanes, watch


@pytest.mark.parametrize(("waited_ns", "disturbed"), [(0, False), (5_000, False), (500_000, True)])
def test_a_sample_counts_if_no_lane_waited_for_long(waited_ns: int, disturbed: bool) -> None:
    lanes, watch = lanes_and_watch()
    elapsed_ns, waited = watch.timed(lambda: lanes.sample(waited_ns))
    assert (elapsed_ns, waited) == (1_000_000, waited_ns / 1e6)
    assert watch.is_disturbed(waited, elapsed_ns) is disturbed
    assert watch.spent_ns == (1_000_000 if disturbed else 0)


def test_a_ping_pong_that_was_interrupted_is_no_slow_mode() -> None:
    """It is taken again, up to three times, and then tells nothing of the machine's mode."""
    waits = 0
    seen = iter([(3_000_000, 3e3), (0, 52.0), *[(3_000_000, 3e3)] * 3, (0, 263.0)])

    def ping_pong_ns() -> float:
        nonlocal waits
        waited_ns, found_ns = next(seen)
        waits += waited_ns
        return found_ns

    watch = ModeWatch(ping_pong_ns, ModeOptions(), waited_ns=lambda: waits, sleep_s=Clock().sleep)
    assert [watch.look() for _ in range(3)] == [False, False, True]
    assert watch.last_ns == 263


def test_disturbed_samples_and_rests_cost_patience() -> None:
    lanes, watch = lanes_and_watch(patience_s=0.006)
    watch.look()
    for spent_ms in (4, 6, 6):
        with watch.round() as round_:
            elapsed_ns, waited = watch.timed(lambda: lanes.sample(900_000))
            assert watch.is_disturbed(waited, elapsed_ns)
        assert not round_.slow  # the ping-pongs know nothing of it
        watch.rest()
        assert watch.spent_ns == spent_ms * 1_000_000
    assert lanes.clock.now_ns == 3 * 1_000_000 + (3 + 1) * 1_000_000
    assert not watch.patient
    assert "another process had the cores (for up to 90 % of a sample)" in watch.told()


def test_where_nobody_counts_waits_no_sample_is_disturbed_and_nothing_stolen() -> None:
    lanes, watch = lanes_and_watch()
    lanes.waited = None
    watch._stolen_ns = count(0, 10**9).__next__
    with watch.round() as round_:
        assert watch.timed(lanes.sample) == (1_000_000, 0.0)
    assert (round_.slow, round_.stolen) == (False, 0.0)


@pytest.mark.parametrize(("stolen_ms", "slow"), [(0, False), (10, False), (20, True)])
def test_a_round_that_the_hypervisor_took_much_of_is_slow(stolen_ms: int, slow: bool) -> None:
    """Ticks of 10 ms: one more may be of the time before."""
    lanes, watch = lanes_and_watch()
    watch._stolen_ns = iter([0, stolen_ms * 1_000_000]).__next__
    with watch.round() as round_:
        lanes.clock.sleep(0.1)
    assert round_.slow is slow
    assert round_.stolen == pytest.approx(0.1 if slow else 0)
    assert watch.spent_ns == (100_000_000 if slow else 0)


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
