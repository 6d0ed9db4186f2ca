"""What the scheduler says, one promise at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_ios.errors import JobError
from tvm_ios.jobs.core.commands import (
    GrantLease,
    JobChanged,
    RePinLease,
    ReportPolicy,
    RevokeLease,
    StartWorker,
    StopWorker,
)
from tvm_ios.jobs.core.events import (
    DeviceBack,
    DeviceLost,
    JobCancelled,
    JobEnded,
    JobSubmitted,
    ProgressTold,
    RePinned,
    StageReleased,
    StageRequested,
    Tick,
    WorkerDied,
)
from tvm_ios.jobs.core.job_state import JobSpec, JobState
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName, policy_named
from tvm_ios.jobs.core.resources import Device, DeviceKind, Lease, Machine
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios.support.stage_gate import JobProgress, StageKind, StageNeed

CPU0 = Device(name="cpu0", kind=DeviceKind.CORE, core=1)
TWO_CORES = Machine(cores=(0, 1), devices=(CPU0,))
BUILD = StageNeed(kind=StageKind.BUILD, task="conv", most_cores=4)
SEARCH = StageNeed(kind=StageKind.SEARCH, task="conv")
PROFILE = StageNeed(kind=StageKind.PROFILE, task="conv")
RACE = StageNeed(kind=StageKind.PROFILE, task="network", least_cores=2, most_cores=2)


def board(name, **options):
    return Device(name=name, kind=DeviceKind.RPC, address=f"host:9190:{name}", **options)


class Silent:
    def choose(self, view):
        return ()


class Raising:
    def choose(self, view):
        raise ValueError("no idea")


class Driver:
    """Says events, and keeps the last commands; a second passes with each."""

    def __init__(self, machine=TWO_CORES, jobs=3, policy=None, device="", **limits):
        self.scheduler = Scheduler(
            machine, policy or policy_named(PolicyName.FIFO), Limits(**limits)
        )
        self.now = 0.0
        for number in range(jobs):
            self.say(JobSubmitted(JobSpec(name="abcdefgh"[number], device=device, trials=640)))

    def say(self, event, later=1.0):
        self.now += later
        return self.scheduler.handle(event, self.now)

    def ask(self, job, need, later=1.0):
        return self.say(StageRequested(job, need), later)

    def status(self, job):
        return next(s for s in self.scheduler.snapshot(self.now) if s.name == job)


def granted(commands):
    return [(c.lease.job, c.lease.cores) for c in commands if isinstance(c, GrantLease)]


def moves(commands):
    return [(c.job, c.cores) for c in commands if isinstance(c, RePinLease)]


def test_a_job_starts_and_ends():
    driver = Driver(jobs=0)
    assert driver.say(JobSubmitted(JobSpec(name="a"))) == (
        JobChanged("a", JobState.WAITING),
        JobChanged("a", JobState.RUNNING),
        StartWorker("a", 1),
    )
    assert granted(driver.ask("a", PROFILE)) == [("a", (1,))]
    driver.say(ProgressTold("a", JobProgress(trials=64, total=640, best_ms=1.5)))
    assert driver.say(StageReleased(job="a", epoch=1)) == ()
    assert driver.say(JobEnded("a")) == (JobChanged("a", JobState.DONE),)
    assert driver.scheduler.all_ended
    status = driver.status("a")
    assert (status.trials, status.best_ms, status.eta_s, status.seconds) == (64, 1.5, None, 4.0)


def test_stages_take_cores_of_no_device_first_and_a_devices_core_while_nobody_profiles():
    driver = Driver()
    assert granted(driver.ask("a", SEARCH)) == [("a", (0,))]
    assert granted(driver.ask("b", SEARCH)) == [("b", (1,))]
    assert driver.ask("c", SEARCH) == ()
    assert driver.status("c").waits_for == "a core"


def test_a_profile_is_granted_when_the_stage_on_its_core_has_left_it():
    driver = Driver()
    assert granted(driver.ask("a", BUILD)) == [("a", (0, 1))]
    assert driver.ask("b", PROFILE) == (RePinLease(job="a", epoch=1, serial=1, cores=(0,)),)
    assert driver.status("b").waits_for == "others to leave cores 1"
    assert driver.status("b").device == ""
    # Of a re-pin that is not the last one: it may still be on core 1.
    assert driver.say(RePinned(job="a", epoch=1, serial=0)) == ()
    commands = driver.say(RePinned(job="a", epoch=1, serial=1))
    lease = Lease(job="b", epoch=2, need=PROFILE, cores=(1,), device="cpu0")
    assert commands == (GrantLease(lease),)
    assert (lease.granted.cores, lease.granted.device) == ((1,), "cpu0")
    # It gets back what it had once the profile is over, after all who wait.
    assert driver.ask("c", SEARCH) == ()
    commands = driver.say(StageReleased(job="b", epoch=2))
    assert (granted(commands), moves(commands)) == ([("c", (1,))], [])
    assert moves(driver.say(StageReleased(job="c", epoch=3))) == [("a", (0, 1))]


def test_a_stage_that_loses_its_only_core_shares_one_until_there_is_a_free_one():
    driver = Driver(jobs=3)
    driver.ask("a", SEARCH)
    driver.ask("b", SEARCH)
    assert moves(driver.ask("c", PROFILE)) == [("b", (0,))]
    assert driver.status("a").cores == driver.status("b").cores == (0,)
    assert granted(driver.say(RePinned(job="b", epoch=2, serial=1))) == [("c", (1,))]
    assert moves(driver.say(StageReleased(job="c", epoch=3))) == [("b", (1,))]


def test_what_two_stages_share_counts_half_for_each():
    driver = Driver(jobs=3)
    driver.ask("a", SEARCH)
    driver.ask("b", SEARCH)
    driver.ask("c", PROFILE)
    driver.say(RePinned(job="b", epoch=2, serial=1), later=0)
    driver.say(StageReleased(job="a", epoch=1), later=10)
    # Two seconds alone and ten with half a core.
    assert driver.scheduler._jobs.estimates.stage_s(SEARCH) == pytest.approx(7.0)


def test_a_race_of_networks_waits_for_all_cores_and_has_them_alone():
    driver = Driver(max_wait_s=30.0)
    driver.ask("a", SEARCH)
    assert driver.ask("b", RACE) == ()
    assert driver.status("b").waits_for == "any device with 2 cores"
    # Younger ones go on until it is too old, then nobody does.
    driver.ask("c", SEARCH)
    driver.say(StageReleased(job="c", epoch=2))
    assert granted(driver.ask("c", SEARCH)) == [("c", (1,))]
    assert driver.scheduler.wake_at == 35.0
    driver.say(StageReleased(job="c", epoch=3), later=40)
    assert driver.ask("c", SEARCH) == ()
    assert granted(driver.say(StageReleased(job="a", epoch=1))) == [("b", (1, 0))]
    assert granted(driver.say(StageReleased(job="b", epoch=4))) == [("c", (0,))]


def test_the_oldest_request_goes_first_whatever_the_policy_says():
    driver = Driver(jobs=3, policy=Silent(), max_wait_s=30.0, max_start_wait_s=0.0)
    assert driver.ask("a", PROFILE) == ()
    assert driver.ask("b", PROFILE) == ()
    assert driver.scheduler.wake_at == driver.now - 1 + 30
    assert granted(driver.say(Tick(), later=29)) == [("a", (1,))]
    assert driver.say(Tick(), later=60) == ()
    assert granted(driver.say(StageReleased(job="a", epoch=1))) == [("b", (1,))]


def test_what_is_promised_before_a_request_grows_too_old_stays_promised():
    driver = Driver(jobs=4, max_wait_s=30.0)
    driver.ask("a", BUILD)
    assert driver.ask("b", SEARCH) == ()
    assert moves(driver.ask("c", PROFILE)) == [("a", (0,))]
    assert driver.say(Tick(), later=30) == ()
    assert granted(driver.say(RePinned(job="a", epoch=1, serial=1))) == [("c", (1,))]
    # From then on it is the first to get a core.
    assert driver.ask("d", PROFILE) == ()
    assert granted(driver.say(StageReleased(job="c", epoch=2))) == [("b", (1,))]


def test_a_batch_that_comes_back_older_than_a_promise_is_next():
    machine = Machine(cores=(0, 1), devices=(board("far", escorted=False), CPU0))
    driver = Driver(machine, jobs=4, max_wait_s=30.0)
    driver.ask("a", PROFILE)
    driver.ask("b", PROFILE)
    assert driver.status("a").device == "far"
    driver.say(DeviceLost("far"))
    driver.say(StageReleased(job="b", epoch=2))
    driver.ask("b", BUILD, later=30)
    assert moves(driver.ask("c", PROFILE)) == [("b", (0,))]
    # Only now it is known that the batch has to be measured elsewhere.
    assert driver.say(StageReleased(job="a", epoch=1, finished=False)) == ()
    assert granted(driver.say(RePinned(job="b", epoch=3, serial=1))) == [("c", (1,))]
    assert driver.ask("d", PROFILE) == ()
    commands = driver.say(StageReleased(job="c", epoch=4))
    assert granted(commands) == [("a", (1,))]


def test_no_stage_gets_back_what_is_kept_for_who_is_too_old():
    driver = Driver(max_wait_s=30.0)
    driver.ask("a", BUILD)
    driver.ask("b", PROFILE)
    driver.say(RePinned(job="a", epoch=1, serial=1))
    assert driver.ask("c", replace(BUILD, least_cores=2)) == ()
    assert driver.say(StageReleased(job="b", epoch=2), later=40) == ()
    assert granted(driver.say(StageReleased(job="a", epoch=1))) == [("c", (0, 1))]


@pytest.mark.parametrize("device", [CPU0, Device(name="gpu0", kind=DeviceKind.GPU)])
@pytest.mark.parametrize("pin", ["", "its name"])
def test_no_core_is_kept_for_who_waits_for_lost_devices(device, pin):
    machine = Machine(cores=(0, 1), devices=(device,))
    driver = Driver(machine, jobs=2, device=pin and device.name, max_wait_s=30.0)
    driver.say(DeviceLost(device.name))
    assert driver.ask("a", PROFILE) == ()
    assert driver.say(Tick(), later=30) == ()
    assert granted(driver.ask("b", BUILD)) == [("b", (0, 1))]


def test_a_policy_that_fails_is_reported_once_and_jobs_go_on():
    driver = Driver(jobs=0, policy=Raising())
    commands = driver.say(JobSubmitted(JobSpec(name="a")))
    assert commands[1:] == (
        ReportPolicy("ValueError: no idea"),
        JobChanged("a", JobState.RUNNING),
        StartWorker("a", 1),
    )
    assert driver.ask("a", SEARCH) == ()
    assert granted(driver.say(Tick(), later=120)) == [("a", (0,))]


def test_no_more_workers_than_allowed_live():
    driver = Driver(jobs=3, max_active=2)
    assert [driver.status(job).state.value for job in "abc"] == ["running", "running", "waiting"]
    assert driver.status("c").waits_for == "a worker"
    assert StartWorker("c", 1) in driver.say(JobEnded("a"))


def test_a_job_that_has_waited_very_long_for_a_worker_is_next():
    driver = Driver(
        jobs=0, policy=policy_named(PolicyName.SHORTEST), max_active=1, max_start_wait_s=100.0
    )
    driver.say(JobSubmitted(JobSpec(name="a")))
    driver.say(JobSubmitted(JobSpec(name="long", trials=10_000)))
    driver.say(JobSubmitted(JobSpec(name="short", trials=64)))
    assert StartWorker("short", 1) in driver.say(JobEnded("a"))
    driver.say(JobSubmitted(JobSpec(name="brief", trials=64)))
    assert StartWorker("long", 1) in driver.say(JobEnded("short"), later=100)


def test_a_late_release_is_ignored_and_its_records_are_kept():
    driver = Driver()
    driver.ask("a", PROFILE)
    driver.say(WorkerDied("a"))
    driver.ask("a", PROFILE)
    driver.say(ProgressTold("a", JobProgress(trials=128)))
    assert driver.say(StageReleased(job="a", epoch=1)) == ()
    assert driver.status("a").device == "cpu0"
    assert driver.status("a").trials == 128


def test_a_lost_devices_batch_moves_and_blames_nobody():
    machine = Machine(cores=(0, 1), devices=(board("near"), board("far")))
    driver = Driver(machine, jobs=1)
    (grant,) = driver.ask("a", PROFILE)
    assert (grant.lease.device, grant.lease.address) == ("near", "host:9190:near")
    assert driver.say(DeviceLost("near")) == (RevokeLease("a", 1),)
    assert driver.say(DeviceLost("near")) == ()
    (grant,) = driver.say(StageReleased(job="a", epoch=1, finished=False))
    assert (grant.lease.device, grant.lease.epoch) == ("far", 2)
    # A worker that dies of it has not died for its job.
    driver.say(DeviceLost("far"))
    assert driver.say(WorkerDied("a")) == (StartWorker("a", 2),)
    assert driver.ask("a", PROFILE) == ()
    assert granted(driver.say(DeviceBack("far"))) == [("a", (0,))]
    assert not driver.scheduler._jobs["a"].deaths


def test_a_batch_that_was_about_to_be_granted_on_a_lost_device_waits_again():
    driver = Driver(device="cpu0")
    driver.ask("a", BUILD)
    driver.ask("b", PROFILE)
    driver.say(DeviceLost("cpu0"))
    assert driver.status("b").waits_for == "device cpu0, which is lost"
    # Core 1 is free for others once its last user has left it.
    assert driver.ask("c", SEARCH) == ()
    assert granted(driver.say(RePinned(job="a", epoch=1, serial=1))) == [("c", (1,))]
    assert driver.say(StageReleased(job="c", epoch=3)) != ()
    commands = driver.say(DeviceBack("cpu0"))
    assert moves(commands) == [("a", (0,))]


def test_a_stage_that_kills_its_worker_twice_ends_the_job():
    driver = Driver(jobs=1)
    driver.ask("a", BUILD)
    assert driver.say(WorkerDied("a")) == (StartWorker("a", 2),)
    driver.ask("a", SEARCH)
    driver.say(StageReleased(job="a", epoch=2))
    driver.ask("a", BUILD)
    reason = "its worker died 2 times in stage build conv"
    assert driver.say(WorkerDied("a")) == (JobChanged("a", JobState.FAILED, reason),)
    assert driver.status("a").reason == reason


def test_a_stage_that_ended_well_in_between_has_not_killed_twice():
    driver = Driver(jobs=1)
    driver.ask("a", BUILD)
    driver.say(WorkerDied("a"))
    driver.ask("a", BUILD)
    driver.say(StageReleased(job="a", epoch=2))
    driver.ask("a", BUILD)
    assert driver.say(WorkerDied("a")) == (StartWorker("a", 3),)


def test_a_worker_that_dies_before_it_asks_for_anything_is_started_once_more():
    driver = Driver(jobs=1)
    assert driver.say(WorkerDied("a")) == (StartWorker("a", 2),)
    (ended,) = driver.say(WorkerDied("a"))
    assert ended.reason == "its worker died 2 times between stages"


def test_a_cancelled_job_keeps_its_cores_until_its_worker_is_gone():
    driver = Driver(jobs=2, max_active=1)
    driver.ask("a", PROFILE)
    assert driver.say(JobCancelled("a")) == (StopWorker("a"),)
    assert driver.say(JobCancelled("a")) == ()
    assert driver.status("a").device == "cpu0"
    assert driver.say(WorkerDied("a")) == (
        JobChanged("a", JobState.CANCELLED),
        JobChanged("b", JobState.RUNNING),
        StartWorker("b", 1),
    )
    assert driver.ask("a", SEARCH) == ()


def test_a_job_that_waits_is_cancelled_at_once():
    driver = Driver(jobs=2, max_active=1)
    assert driver.say(JobCancelled("b")) == (JobChanged("b", JobState.CANCELLED),)


@pytest.mark.parametrize(
    ("need", "machine", "reason"),
    [
        (RACE, Machine(cores=(1,), devices=(CPU0,)), "needs 2 cores and the machine has 1"),
        (PROFILE, Machine(cores=(1,), devices=()), "needs a device and the machine has none"),
    ],
)
def test_a_stage_that_can_never_be_granted_ends_its_job(need, machine, reason):
    driver = Driver(machine, jobs=1)
    assert driver.ask("a", need) == (StopWorker("a"),)
    (ended,) = driver.say(WorkerDied("a"))
    assert (ended.state, ended.reason) == (JobState.FAILED, f"stage profile {reason}")


def test_a_job_that_asks_inside_a_stage_fails_alone():
    driver = Driver(jobs=2)
    driver.ask("a", SEARCH)
    assert driver.ask("a", BUILD) == (StopWorker("a"),)
    (ended,) = driver.say(JobEnded("a"))
    assert ended.reason == "asked for stage build inside another"
    assert granted(driver.ask("b", SEARCH)) == [("b", (0,))]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (StageRequested("nobody", SEARCH), "there is no job 'nobody'; submit it first"),
        (JobSubmitted(JobSpec(name="a")), "job 'a': give each job a name of its own"),
        (
            JobSubmitted(JobSpec(name="z", device="gpu7")),
            "job 'z': there is no device 'gpu7'; there are: ['cpu0']",
        ),
        (DeviceLost("gpu7"), "there is no device 'gpu7'"),
    ],
)
def test_events_about_what_does_not_exist_are_refused(event, message):
    driver = Driver(jobs=1)
    before = driver.scheduler.snapshot(driver.now)
    with pytest.raises(JobError) as error:
        driver.scheduler.handle(event, driver.now + 100)
    assert message in str(error.value)
    assert driver.scheduler.snapshot(driver.now) == before
    assert driver.ask("a", SEARCH)


def test_time_does_not_run_back():
    driver = Driver(jobs=1)
    with pytest.raises(JobError, match=r"comes after an event at 1.0 s"):
        driver.scheduler.handle(Tick(), 0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_active": 0}, "at least 1 worker"), ({"max_wait_s": -1}, "max_wait_s is -1")],
)
def test_bounds_under_which_nothing_runs_are_refused(options, message):
    with pytest.raises(JobError, match=message):
        Limits(**options)


@pytest.mark.parametrize(
    ("cores", "devices", "message"),
    [
        ((), (), "cores must be one or more different numbers"),
        ((0, 0), (), "cores must be one or more different numbers"),
        ((0,), (CPU0,), "device 'cpu0' lies on core 1, and the cores are (0,)"),
        ((0, 1), (CPU0, CPU0), "device 'cpu0': give each device a name of its own"),
        ((0,), (Device(name="c", kind=DeviceKind.CORE),), "'c' is a core: say which, as core = 1"),
        (
            (0, 1),
            (CPU0, Device(name="other", kind=DeviceKind.CORE, core=1)),
            "two devices are the same core",
        ),
    ],
)
def test_machines_that_cannot_be_are_refused(cores, devices, message):
    with pytest.raises(JobError) as error:
        Machine(cores=cores, devices=devices)
    assert message in str(error.value)
