from __future__ import annotations

import pytest

from tvm_ios.jobs.core.estimates import Estimates
from tvm_ios.jobs.core.job_state import JobSpec, Remaining
from tvm_ios.support.stage_gate import JobProgress, StageKind, StageNeed

BUILD = StageNeed(kind=StageKind.BUILD, task="conv", most_cores=4)
PROFILE = StageNeed(kind=StageKind.PROFILE, task="conv")


def measure(estimates, job, need, seconds):
    estimates.end(job, need, estimates.begin(job, need), seconds)


def test_a_task_is_as_long_as_it_was_whichever_job_measured_it():
    estimates = Estimates(cores=8)
    measure(estimates, "a", PROFILE, 10.0)
    assert estimates.stage_s(PROFILE) == 10.0
    measure(estimates, "b", PROFILE, 20.0)
    assert estimates.stage_s(PROFILE) == pytest.approx(13.0)
    # A task that nobody has seen is like others of its kind; a job may know better.
    assert estimates.stage_s(StageNeed(kind=StageKind.PROFILE, task="new")) == pytest.approx(13.0)
    known = StageNeed(kind=StageKind.PROFILE, task="conv", estimate_s=4.0)
    assert estimates.stage_s(known) == 4.0


def test_what_is_left_follows_the_jobs_own_rate():
    estimates, spec = Estimates(cores=2), JobSpec(name="a", trials=640, batch=64)
    estimates.tell("a", JobProgress(trials=0, total=640))
    for batch in range(1, 6):
        measure(estimates, "a", BUILD, 8.0)
        measure(estimates, "a", PROFILE, 6.0)
        estimates.tell("a", JobProgress(trials=64 * batch, total=640))
    left = estimates.remaining(spec)
    assert left.device_s == pytest.approx(30.0)
    assert left.core_s == pytest.approx(40.0)
    # Its four builders have two cores.
    assert left.alone_s == pytest.approx(50.0)


def test_a_new_job_is_like_the_others_and_one_that_measured_much_is_like_itself():
    estimates = Estimates(cores=2)
    measure(estimates, "slow", PROFILE, 20.0)
    estimates.tell("slow", JobProgress(trials=64, total=640))
    new = estimates.remaining(JobSpec(name="new", trials=64, batch=64))
    assert new.device_s == pytest.approx(20.0)
    # Nobody said how many: as many as the others.
    assert estimates.remaining(JobSpec(name="open")).device_s == pytest.approx(200.0)


def test_what_was_cut_short_says_nothing():
    estimates, spec = Estimates(cores=2), JobSpec(name="a", trials=640)
    before = estimates.remaining(spec)
    measure(estimates, "a", PROFILE, None)
    assert estimates.remaining(spec).device_s == pytest.approx(before.device_s)


def test_records_that_a_job_begins_with_cost_nothing():
    estimates, spec = Estimates(cores=2), JobSpec(name="a", trials=640, batch=64)
    estimates.tell("a", JobProgress(trials=320, total=640))
    measure(estimates, "a", PROFILE, 6.0)
    estimates.tell("a", JobProgress(trials=384, total=640))
    assert estimates.remaining(spec).device_s == pytest.approx(6.0 * 256 / 64)


def test_what_is_expected_counts_until_the_job_has_measured():
    estimates = Estimates(cores=2)
    expected = Remaining(device_s=100.0, core_s=10.0, alone_s=120.0)
    spec = JobSpec(name="a", trials=640, batch=64, expected=expected)
    assert estimates.remaining(spec).device_s == pytest.approx(100.0)
    measure(estimates, "a", PROFILE, 30.0)
    estimates.tell("a", JobProgress(trials=64, total=640))
    assert estimates.remaining(spec).device_s == pytest.approx(9 * (30 + 10) / 2)
