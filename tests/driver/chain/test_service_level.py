"""The policy of service levels: known records first, then slices, and no more than is needed."""

from __future__ import annotations

import json

import pytest

from tvm_ios.driver.chain.latency import Latency
from tvm_ios.driver.chain.service_level import ServiceLevel, reach, require_sla_ms, trial_slices
from tvm_ios.errors import OptionError
from tvm_ios.support.stored_value import parse_json
from tvm_ios.support.time_budget import TimeBudget


def latency(median_ms, spread_ms=0.0):
    return Latency(
        median_ms=median_ms,
        low_ms=median_ms - spread_ms,
        high_ms=median_ms + spread_ms,
        confidence=0.95,
        rounds=6,
    )


def climb(times, attempts, sla_ms=5.0, budget=None):
    """Reach a level with models that are their trials, and have these latencies."""
    built = []

    def build(trials):
        built.append(trials)
        return trials

    found = reach(
        sla_ms,
        attempts,
        build,
        lambda model: times[model],
        budget=budget or TimeBudget(),
        notes=("known",),
    )
    return found, built


def test_known_records_alone_may_be_enough():
    found, built = climb({0: latency(4.0)}, (0, 8, 16))
    assert built == [0]
    assert found.level.is_met
    assert found.level.answers[0].trials == 0
    assert "known records, no tuning: 4.0000 ms" in found.level.as_text()


def test_tuning_ends_with_the_first_evaluation_that_meets_the_level():
    times = {0: latency(9.0), 8: latency(4.9, 0.2), 16: latency(4.5, 0.2), 32: latency(1.0)}
    found, built = climb(times, (0, 8, 16, 32))
    # 4.9 ms may as well be 5.1: the whole interval has to lie below.
    assert built == [0, 8, 16]
    assert (found.model, found.latency) == (16, times[16])


def test_where_nothing_meets_it_the_fastest_model_is_kept():
    times = {8: latency(7.0), None: latency(8.0)}
    found, built = climb(times, (8, None))
    assert built == [8, None]
    assert not found.level.is_met
    assert (found.model, found.latency) == (8, times[8])
    assert found.level.as_text().startswith("service level 5 ms: not met")


def test_the_time_budget_ends_it_after_the_attempt_at_hand():
    now = iter([0.0, *[5.0] * 20])
    budget = TimeBudget(2.0, clock_s=lambda: next(now))
    found, built = climb({8: latency(7.0), 16: latency(1.0)}, (8, 16), budget=budget)
    assert built == [8]
    assert any("tuning to 16 trials was left out" in note for note in found.level.notes)


def test_no_attempt_is_refused():
    with pytest.raises(OptionError, match="no attempt"):
        climb({}, ())


@pytest.mark.parametrize(
    ("trials", "known", "tasks", "slices"),
    [
        (64, 0, None, (8, 16, 32, 64)),
        (64, 16, None, (32, 64)),
        (64, 100, None, (64,)),
        (1, 0, None, (1,)),
        (3, 0, None, (1, 2, 3)),
        (None, 0, None, (8, 16, 32, None)),
        (None, 20, 2, (32, 64, None)),
    ],
)
def test_slices_double_and_leave_out_what_the_log_has(trials, known, tasks, slices):
    assert trial_slices(trials, known=known, tasks=tasks) == slices


@pytest.mark.parametrize("value", [0, -1, True, "3", float("inf"), float("nan")])
def test_a_service_level_is_milliseconds_above_0(value):
    with pytest.raises(OptionError, match="sla_ms is .*; give milliseconds above 0"):
        require_sla_ms(value)


def test_a_service_level_is_read_back():
    found, _ = climb({0: latency(9.0), 8: latency(4.0)}, (0, 8))
    text = json.dumps(found.level.as_record())
    assert ServiceLevel.from_record(parse_json(text, "level")) == found.level
    assert json.loads(text)["met"] is True
