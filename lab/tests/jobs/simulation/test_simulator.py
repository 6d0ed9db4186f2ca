"""Simulated jobs of scripted stages, by the real scheduler, on machines that lose things."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from tvm_ios.jobs.core.events import DeviceBack, DeviceLost, JobCancelled, WorkerDied
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName, policy_named
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios_lab.jobs.simulation.mock_job import batched_job, random_jobs
from tvm_ios_lab.jobs.simulation.scenarios import SCENARIOS, Knowledge, compare
from tvm_ios_lab.jobs.simulation.simulator import simulate
from tvm_ios_lab.jobs.simulation_table import TABLE, table
from tvm_ios_lab.places import RESULTS

KNOWLEDGE = {
    "slack, estimates wrong by two": Knowledge.WRONG,
    "slack, nothing known before": Knowledge.NONE,
}
TWO = SCENARIOS["2 cores, one is the device, 4 jobs"].machine
TIMES = {"search_s": 1.0, "build_s": 8.0, "profile_s": 3.0, "update_s": 2.0}


def run(jobs, machine=TWO, policy=PolicyName.FIFO, mishaps=(), **limits):
    return simulate(jobs, machine, policy_named(policy), Limits(**limits), mishaps=mishaps)


def test_a_job_alone_takes_what_its_stages_take():
    job = batched_job("a", 3, **TIMES)
    done = run([job])
    assert done.makespan_s == pytest.approx(3 * (1 + 4 + 3 + 2))
    assert done.makespan_s == pytest.approx(job.alone_s(2))
    assert done.busy(TWO) == pytest.approx(0.3)


def test_two_jobs_overlap():
    done = run([batched_job("a", 1, **TIMES), batched_job("b", 1, **TIMES)])
    # Side by side, until the profile takes core 1.
    assert done.as_text().splitlines()[:5] == [
        "0.000 0.000 1.000 a search a on 0",
        "0.000 0.000 1.000 b search b on 1",
        "1.000 1.000 9.000 a build a on 0",
        "1.000 1.000 9.000 b build b on 1 -> 0",
        "9.000 9.000 12.000 a profile a on 1 and cpu0",
    ]


@pytest.mark.parametrize("policy", PolicyName)
def test_everything_ends_whatever_goes_wrong(policy):
    jobs = [*random_jobs(5, 3), batched_job("stubborn", 2, **TIMES)]
    jobs[-1] = replace(jobs[-1], deaths={2: 1, 5: 2})
    machine = Machine(
        cores=(0, 1, 2),
        devices=(
            Device(name="cpu0", kind=DeviceKind.CORE, core=1),
            Device(name="gpu0", kind=DeviceKind.GPU),
        ),
    )
    mishaps = [
        (20.0, DeviceLost("cpu0")),
        (33.0, WorkerDied("job0")),
        (40.0, JobCancelled("job4")),
        (90.0, DeviceBack("cpu0")),
        (91.0, DeviceLost("gpu0")),
        (200.0, DeviceBack("gpu0")),
    ]
    done = run(jobs, machine, policy, mishaps)
    last = {job: max(times, key=times.get) for job, times in done.states.items()}
    assert last.pop("stubborn") is JobState.FAILED
    assert last.pop("job4") is JobState.CANCELLED
    assert set(last.values()) == {JobState.DONE}
    # Each finished stage was computed once, and only what was cut short was computed again.
    for job in jobs[:4]:
        spans = [span for span in done.trace.ended if span.job == job.name and span.finished]
        assert [span.need for span in spans] == [stage.need for stage in job.stages]
        for before, after in pairwise(spans):
            assert before.ended_s <= after.asked_s <= after.granted_s
    for span in done.trace.ended:
        if span.device == "cpu0" and span.finished:
            assert span.ended_s <= 20.0 or span.granted_s >= 90.0


def test_a_run_is_replayed_from_its_journal():
    jobs, limits = random_jobs(4, 0), Limits(max_wait_s=30.0)
    done = run(jobs, policy=PolicyName.SLACK, max_wait_s=30.0)
    first, second = (Scheduler(TWO, policy_named(PolicyName.SLACK), limits) for _ in range(2))
    for now, event in done.journal:
        assert first.handle(event, now) == second.handle(event, now)
    assert first.all_ended


def test_nobody_waits_longer_than_the_bound_and_the_stages_before_it():
    jobs, bound = random_jobs(4, 0), 10.0
    done = run(jobs, policy=PolicyName.LONGEST, max_wait_s=bound)
    longest = max(span.ended_s - span.granted_s for span in done.trace.ended)
    waited = max(span.waited_s for span in done.trace.ended)
    # Once too old, at most the three others are before it, each with one stage.
    assert bound < waited <= bound + 3 * longest


def golden(scenario):
    stored = json.loads(TABLE.read_text(encoding="utf-8"))[scenario]
    seeds = range(1 if SCENARIOS[scenario].jobs > 100 else 3)
    for contestant, expected in stored.items():
        policy = PolicyName(contestant.partition(",")[0])
        known = KNOWLEDGE.get(contestant, Knowledge.RIGHT)
        outcomes = [compare(SCENARIOS[scenario], policy, seed, known)[1] for seed in seeds]
        for name, value in expected.items():
            mean = sum(getattr(outcome, name) for outcome in outcomes) / len(outcomes)
            assert mean == pytest.approx(value, abs=1e-3), f"{contestant}: {name}"


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    "scenario",
    [
        name if scenario.jobs < 8 else pytest.param(name, marks=pytest.mark.full)
        for name, scenario in SCENARIOS.items()
        if scenario.jobs <= 100
    ],
)
def test_the_table_is_what_the_simulation_gives(scenario):
    golden(scenario)


def test_the_documents_have_the_table_and_reach_the_goals():
    stored = json.loads(TABLE.read_text(encoding="utf-8"))
    assert list(stored) == list(SCENARIOS)
    text = (RESULTS / "decisions" / "0026-jobs.md").read_text(encoding="utf-8")
    assert "\n".join(table(stored)) in text
    escorted = stored["the same, each profile takes a core"]
    assert escorted["slack"]["over_bound"] <= 1.05
    assert (
        escorted["slack"]["mean_completion_s"] <= 0.5 * escorted["sequential"]["mean_completion_s"]
    )


@pytest.mark.full
@pytest.mark.slow
def test_a_thousand_jobs_keep_a_hundred_devices_busy():
    name = "300 cores, 100 devices, 1000 jobs"
    stored = json.loads(TABLE.read_text(encoding="utf-8"))[name]
    _, outcome = compare(SCENARIOS[name], PolicyName.SLACK, 0)
    assert outcome.over_bound <= 1.05
    assert outcome.busy >= 0.95
    assert outcome.mean_completion_s <= 0.5 * stored["sequential"]["mean_completion_s"]
    assert outcome.makespan_s == pytest.approx(stored["slack"]["makespan_s"], abs=1e-3)
    wrong = stored["slack, estimates wrong by two"]
    assert wrong["busy"] >= 0.9
    assert wrong["makespan_s"] <= stored["fifo"]["makespan_s"]
