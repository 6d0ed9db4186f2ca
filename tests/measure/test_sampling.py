from __future__ import annotations

from itertools import chain, count, repeat
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.errors import CostError, OptionError
from tvm_ios.measure.machine_mode import ModeOptions, ModeWatch
from tvm_ios.measure.sampling import MOST_RUNS, Cell, MeasureOptions, sample, timed_sample
from tvm_ios.support.time_budget import TimeBudget


def quiet_watch() -> ModeWatch:
    return ModeWatch(lambda: 0.0, ModeOptions())


def steady(run_ns: float) -> Cell:
    return Cell(lambda number: round(number * run_ns), 1)


@given(run_ns=st.floats(0, 1e9), shortest_ns=st.floats(1, 1e8))  # clocks tick whole ns
def test_a_sample_is_never_shorter_than_asked(run_ns: float, shortest_ns: float) -> None:
    cell = steady(run_ns)
    timed_sample(cell, shortest_ns)
    assert round(cell.number * run_ns) >= shortest_ns or cell.number == MOST_RUNS


def test_runs_are_as_many_as_a_sample_needs() -> None:
    cell = steady(50_000)
    assert timed_sample(cell, 1e6) == 50_000
    assert cell.number == 22
    long = steady(30e6)
    timed_sample(long, 1e6)
    assert long.number == 1


def test_runs_shrink_again_when_samples_get_far_too_long() -> None:
    """As on an overloaded machine: 20 microseconds a run at first, then 4 ms."""
    run_ns = [20_000.0]
    cell = Cell(lambda number: round(number * run_ns[0]), 2)
    timed_sample(cell, 1e6)
    assert cell.number >= 50
    run_ns[0] = 4e6
    assert timed_sample(cell, 1e6) == 4e6
    assert cell.number == 2


def test_quiet_cells_take_the_least_rounds_and_stay_interleaved() -> None:
    order: list[str] = []

    def timer(name: str) -> Cell:
        def time_ns(number: int) -> int:
            order.append(name)
            return number * 2_000_000

        return Cell(time_ns, 1)

    cells = [timer(name) for name in "abc"]
    assert sample(cells, MeasureOptions(), quiet_watch()) == 0
    assert [len(cell.fast_ns) for cell in cells] == [5, 5, 5]
    warm_ups = "aabbcc"  # two runs each, and no trial: one run makes a sample
    assert "".join(order) == warm_ups + "abc" * 5


@pytest.mark.parametrize(
    ("seconds", "samples"), [(0.5, [0, 0]), (2.5, [1, 0]), (3.5, [1, 1]), (100.0, [3, 3])]
)
def test_cells_stay_with_what_they_have_when_time_is_over(seconds, samples) -> None:
    """Each run takes a second by the clock of the budget, which is looked at before a sample."""
    now_s = [0.0]

    def time_ns(number: int) -> int:
        now_s[0] += number
        return number * 1_000_000_000

    cells = [Cell(time_ns, 1), Cell(time_ns, 1)]
    budget = TimeBudget(seconds, clock_s=lambda: now_s[0])
    sample(cells, MeasureOptions(), quiet_watch(), budget)
    assert [len(cell.fast_ns) for cell in cells] == samples
    assert [cell.complete(MeasureOptions()) for cell in cells] == [each >= 3 for each in samples]


def test_long_runs_are_warm_after_one() -> None:
    runs: list[int] = []
    sample(
        [Cell(lambda number: runs.append(number) or 10_000_000, 1)], MeasureOptions(), quiet_watch()
    )
    assert runs == [1] * 6


@pytest.mark.parametrize(("times_ms", "samples"), [([200] * 9, 3), ([200, 210, 190, 400] * 9, 5)])
def test_runs_of_a_tenth_of_a_second_have_few_samples(times_ms: list[int], samples: int) -> None:
    times = iter([200, *times_ms])
    cell = Cell(lambda number: number * next(times) * 1_000_000, 1)
    sample([cell], MeasureOptions(), quiet_watch())
    assert len(cell.fast_ns) == samples
    assert cell.complete(MeasureOptions())


def test_short_runs_are_tried_before_they_are_sampled() -> None:
    numbers: list[int] = []

    def time_ns(number: int) -> int:
        numbers.append(number)
        return number * 100_000

    sample([Cell(time_ns, 1)], MeasureOptions(), quiet_watch())
    assert numbers == [1, 1, 1, 11, *[11] * 5]


def test_noisy_cells_go_on_alone() -> None:
    values = iter([1.0, 1.3, 0.8, 1.2, 0.7] * 20)
    noisy = Cell(lambda number: round(number * next(values) * 2e6), 1)
    quiet = steady(2e6)
    sample([noisy, quiet], MeasureOptions(max_repeat=11), quiet_watch())
    assert (len(noisy.fast_ns), len(quiet.fast_ns)) == (11, 5)


def test_one_spike_costs_no_extra_round() -> None:
    values = iter([2.0, 2.0, 2.0, 2.0, 9.0, 2.0, 2.0])
    cell = Cell(lambda number: round(number * next(values) * 1e6), 1)
    sample([cell], MeasureOptions(warmup=0), quiet_watch())
    assert sorted(cell.fast_ns) == [2e6, 2e6, 2e6, 2e6, 9e6]


def test_a_disturbed_majority_is_outvoted_by_more_samples() -> None:
    """Three of the first five samples lost the same time, so their spread looks perfect."""
    values = iter([2.0, 6.0, 6.0, 2.0, 6.0, 6.0] + [2.0] * 30)
    cell = Cell(lambda number: round(number * next(values) * 1e6), 1)
    sample([cell], MeasureOptions(warmup=0), quiet_watch())
    assert 5 < len(cell.fast_ns) <= 15
    assert median(cell.fast_ns) == 2e6


def test_fast_samples_push_out_slow_ones() -> None:
    cell = Cell(lambda number: number, 1, fast_ns=[1.0] * 5, slow_ns=[2.0] * 5)
    assert cell.used_ns(5) == [1.0] * 5
    assert sorted(cell.used_ns(6)) == [1.0] * 5 + [2.0] * 5


def test_a_slow_mode_that_stays_ends_the_sampling_of_noisy_cells() -> None:
    cell = Cell(lambda number: 2_000_000 * number, 1, fast_ns=[1.5e6, 2e6, 2.5e6, 3e6, 3.5e6])
    ping_pongs = chain([50.0, 50.0], repeat(900.0))
    watch = ModeWatch(
        ping_pongs.__next__, ModeOptions(patience_s=0), clock_ns=count(0, 10**9).__next__
    )
    sample([cell], MeasureOptions(), watch)
    assert len(cell.slow_ns) <= 15


def watch_of_waits(waited: list[bool], **options: float) -> tuple[Cell, ModeWatch]:
    """A cell of 2 ms, and whether its lanes wait for half of each sample: the last entry stays."""
    told = chain(waited, repeat(waited[-1]))
    total = [0]

    def time_ns(number: int) -> int:
        if next(told):
            total[0] += 2_000_000 * number
            return 4_000_000 * number
        return 2_000_000 * number

    cell = Cell(time_ns, 1)
    watch = ModeWatch(
        lambda: 50.0,
        ModeOptions(**options),
        waited_ns=lambda: total[0],
        stolen_ns=lambda: 0,
        clock_ns=count(0, 1000).__next__,
        sleep_s=lambda _: None,
    )
    return cell, watch


def test_a_sample_whose_lanes_waited_is_taken_again() -> None:
    cell, watch = watch_of_waits([False, True, True, False, True, False])
    steady_cell = steady(2e6)
    assert sample([cell, steady_cell], MeasureOptions(warmup=0), watch) == 0
    assert cell.fast_ns == [2e6] * 5
    assert cell.slow_ns == []
    assert steady_cell.fast_ns == [2e6] * 5  # its own samples were not disturbed
    assert watch.spent_ns >= 3 * 4_000_000


def test_disturbed_samples_count_as_such_once_patience_is_spent() -> None:
    cell, watch = watch_of_waits([True], patience_s=0.01)
    options = MeasureOptions(warmup=0)
    sample([cell], options, watch)
    assert (cell.fast_ns, cell.slow_ns) == ([], [4e6] * 5)
    assert cell.complete(options)


@pytest.mark.parametrize(
    "values",
    [
        {"warmup": -1},
        {"number": 0},
        {"number": 1.5},
        {"number": True},
        {"repeat": 0},
        {"max_repeat": 3},
        {"batch_size": 0},
        {"min_repeat_ms": -1.0},
        {"min_repeat_ms": float("inf")},
        {"tolerance": 0.0},
        {"wait_quiet_s": -1.0},
    ],
)
def test_senseless_options_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(values))):
        MeasureOptions(**values)


@pytest.mark.parametrize(
    ("failure", "error", "message"),
    [("", ValueError, "^no lane$"), ("the call", CostError, "^the call: ValueError: no lane$")],
)
def test_errors_of_what_is_timed_say_where_they_are_from(failure, error, message) -> None:
    def time_ns(_: int) -> int:
        raise ValueError("no lane")

    with pytest.raises(error, match=message):
        sample([Cell(time_ns, 1, failure=failure)], MeasureOptions(), quiet_watch())
