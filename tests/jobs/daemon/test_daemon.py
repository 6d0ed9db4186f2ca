"""Scripted jobs in real workers: what is killed goes on, and nothing is lost or left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.jobs.runs import CORES, LONG_S, MACHINE, affinities, mock_order, processes_of
from tvm_ios.errors import HostError, JobError
from tvm_ios.host.pinning import pin_tree
from tvm_ios.jobs.core.events import DeviceBack, DeviceLost, ProgressTold, StageReleased
from tvm_ios.jobs.core.job_state import JobSpec, JobState
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.daemon.daemon import sole_daemon
from tvm_ios.jobs.local import agent
from tvm_ios.jobs.order import JobOrder
from tvm_ios.jobs.store import JobStore
from tvm_ios.support.stage_gate import StageKind, StageNeed
from tvm_ios_lab.jobs.simulation.mock_job import MockStage
from tvm_ios_lab.jobs.simulation.mock_work import MockWork, measured_batches, stage_begins

pytestmark = pytest.mark.slow
COMPUTING = (StageKind.SEARCH, StageKind.BUILD, StageKind.PROFILE, StageKind.UPDATE)
ALL_OR_TWO = [
    pytest.param(
        kind, marks=() if kind in (StageKind.BUILD, StageKind.PROFILE) else pytest.mark.full
    )
    for kind in COMPUTING
]
"""Stages that hold cores alone, and those that measure; in full tests all."""
PROFILES = (2, 6)
"""Places of the profiles of a job of two batches."""
two_cores = pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")


def states(run):
    return {each.name: each.state for each in run.daemon.status()}


def test_jobs_run_to_their_end_and_are_written_down(run_daemon, folder):
    async def act(run):
        run.daemon.submit([mock_order(f"job{i}") for i in range(3)])
        await run.daemon.all_ended()
        assert set(states(run).values()) == {JobState.DONE}
        return run.daemon.spans(), run.events

    spans, events = run_daemon(act)
    profiles = sorted(
        (span.granted_s, span.ended_s) for span in spans if span.need.kind is StageKind.PROFILE
    )
    assert len(profiles) == 6
    assert all(end <= begin for (_, end), (begin, _) in pairwise(profiles))
    for place, event in enumerate(events):
        if isinstance(event, ProgressTold):
            after = [e for e in events[place:] if isinstance(e, StageReleased)]
            assert any(e.job == event.job for e in after), "a device was free before its records"
    with JobStore(folder.database) as store:
        assert [job.state for job in store.jobs()] == [JobState.DONE] * 3
        assert [job.progress.trials for job in store.jobs()] == [128] * 3
        assert len(store.spans()) == len(spans) == 24
    for i in range(3):
        assert measured_batches(folder.jobs / f"job{i}") == PROFILES
    assert not processes_of(folder)


@pytest.mark.usefixtures("planted_folder")
def test_workers_run_nothing_of_the_working_directory(run_daemon):
    async def act(run):
        run.daemon.submit([mock_order("job", 1, burns=True)])
        await run.daemon.all_ended()
        assert states(run) == {"job": JobState.DONE}

    run_daemon(act)


@pytest.mark.parametrize("kind", ALL_OR_TWO, ids=str)
def test_a_killed_worker_measures_only_its_batch_again(run_daemon, folder, kind):
    async def act(run):
        slow = {f"{kind.value}_s": 0.5}
        burns = kind is StageKind.BUILD  # in a process below
        run.daemon.submit([mock_order("killed", burns=burns, **slow), mock_order("other")])
        os.kill(await run.until_stage("killed", kind), signal.SIGKILL)
        await run.daemon.all_ended()
        assert states(run) == {"killed": JobState.DONE, "other": JobState.DONE}
        assert run.status("killed").attempt == 2
        assert run.status("other").attempt == 1

    run_daemon(act)
    assert measured_batches(folder.jobs / "killed") == PROFILES
    assert measured_batches(folder.jobs / "other") == PROFILES
    assert not processes_of(folder)


def test_a_worker_that_cannot_be_answered_is_ended_and_begins_again(
    run_daemon, folder, monkeypatch, caplog
):
    calls = []

    def pin(cores, process):
        calls.append(process)
        if len(calls) == 3:
            raise HostError("it cannot be pinned")
        pin_tree(cores, process)

    monkeypatch.setattr(agent, "pin_tree", pin)

    async def act(run):
        run.daemon.submit([mock_order("silent")])
        await run.daemon.all_ended()
        assert states(run) == {"silent": JobState.DONE}
        assert run.status("silent").attempt == 2

    run_daemon(act)
    assert calls[2] == calls[0] != calls[-1]
    assert "the worker of silent is ended, since it cannot be answered" in caplog.text
    assert "it cannot be pinned" in caplog.text
    assert measured_batches(folder.jobs / "silent") == PROFILES


def test_a_worker_that_dies_twice_in_one_stage_has_failed(run_daemon, folder):
    async def act(run):
        run.daemon.submit([mock_order("doomed", profile_s=20.0), mock_order("other")])
        first = await run.until_stage("doomed", StageKind.PROFILE)
        os.kill(first, signal.SIGKILL)
        while (second := await run.until_stage("doomed", StageKind.PROFILE)) == first:
            await asyncio.sleep(0.01)
        os.kill(second, signal.SIGKILL)
        await run.daemon.all_ended()
        assert states(run) == {"doomed": JobState.FAILED, "other": JobState.DONE}
        assert "died 2 times in stage profile" in run.status("doomed").reason

    run_daemon(act)
    assert not processes_of(folder)


def test_a_job_is_cancelled_with_all_its_processes(run_daemon, folder):
    async def act(run):
        order = mock_order("unwanted", burns=True, build_s=600.0)
        run.daemon.submit([order, mock_order("waiting")])
        worker = await run.until_stage("unwanted", StageKind.BUILD)
        while len(affinities(worker)) < 1 or len(processes_of(folder)) < 2:
            await asyncio.sleep(0.01)
        run.daemon.cancel("unwanted")
        await run.daemon.all_ended()
        assert states(run) == {"unwanted": JobState.CANCELLED, "waiting": JobState.DONE}
        with pytest.raises(JobError, match="no job 'nobody'"):
            run.daemon.cancel("nobody")

    run_daemon(act)
    assert not processes_of(folder)


@two_cores
def test_a_profile_moves_builders_off_its_core_before_it_begins(run_daemon):
    async def act(run):
        own = MACHINE.devices[0].core
        run.daemon.submit([mock_order("builder", burns=True, build_s=6000.0)])
        builder = await run.until_stage("builder", StageKind.BUILD)
        assert affinities(builder) == {CORES}
        profile = MockStage(need=StageNeed(kind=StageKind.PROFILE), work_s=2.0, trials=64)
        spec = JobSpec(name="profiler")
        run.daemon.submit([JobOrder(spec=spec, work=MockWork(stages=(profile,)).called)])
        profiler = await run.until_stage("profiler", StageKind.PROFILE)
        assert run.status("builder").stage.startswith("build")
        left = tuple(core for core in CORES if core != own)
        assert all(set(cores) <= set(left) for cores in affinities(builder))
        # Its stage is granted when the builder is gone; it hears of that when it is pinned itself.
        deadline = time.monotonic() + LONG_S
        while affinities(profiler) != {(own,)}:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.005)
        run.daemon.cancel("builder")
        await run.daemon.all_ended()

    run_daemon(act)


def test_a_lost_device_moves_its_batch(run_daemon, folder):
    devices = (
        Device(name="a", kind=DeviceKind.GPU),
        Device(name="b", kind=DeviceKind.GPU),
    )

    async def act(run):
        run.daemon.submit([mock_order("job", profile_s=0.5)])
        await run.until_stage("job", StageKind.PROFILE)
        lost = run.status("job").device
        run.daemon.say(DeviceLost(lost))
        again = await run.until(lambda event: isinstance(event, StageReleased))
        assert not again.finished
        await run.until_stage("job", StageKind.PROFILE)
        assert run.status("job").device != lost
        run.daemon.say(DeviceBack(lost))
        await run.daemon.all_ended()
        assert run.status("job").attempt == 1

    run_daemon(act, machine=Machine(cores=CORES, devices=devices))
    assert measured_batches(folder.jobs / "job") == PROFILES


def test_of_two_jobs_with_one_name_none_is_taken(run_daemon):
    async def act(run):
        with pytest.raises(JobError, match="job 'a' is there 2 times"):
            run.daemon.submit([mock_order("b"), mock_order("a"), mock_order("a", 3)])
        assert run.daemon.status() == ()

    run_daemon(act)


def test_what_a_daemon_leaves_its_successor_takes_up(run_daemon, folder):
    async def leave(run):
        run.daemon.submit([mock_order("first", 3), mock_order("late")])
        await run.until(lambda event: isinstance(event, ProgressTold) and event.job == "first")

    async def take_up(run):
        assert run.daemon.resume() == ("first", "late")
        assert run.status("first").trials == 64
        await run.daemon.all_ended()
        assert run.daemon.resume() == ()
        assert run.daemon.submit([mock_order("first", 3)]) == ()

    async def find_nothing_to_do(run):
        assert run.daemon.submit([mock_order("first", 3)]) == ()
        await run.daemon.all_ended()

    run_daemon(leave, limits=Limits(max_active=1))
    assert not processes_of(folder)
    run_daemon(take_up)
    run_daemon(find_nothing_to_do)
    assert measured_batches(folder.jobs / "first") == (2, 6, 10)
    with JobStore(folder.database) as store:
        assert [job.attempts for job in store.jobs()] == [2, 1]


def test_a_job_whose_device_is_gone_fails_and_the_others_go_on(run_daemon):
    async def leave(run):
        order = mock_order("stranded", build_s=600.0)
        order = replace(order, spec=replace(order.spec, device="cpu0"))
        run.daemon.submit([order, mock_order("other")])

    async def take_up(run):
        assert run.daemon.resume() == ("other",)
        await run.daemon.all_ended()
        assert states(run) == {"stranded": JobState.FAILED, "other": JobState.DONE}
        assert "cpu0" in run.status("stranded").reason

    renamed = replace(MACHINE.devices[0], name="cpu1")
    run_daemon(leave)
    run_daemon(take_up, machine=replace(MACHINE, devices=(renamed,)))


DAEMON = """
import asyncio, sys
from pathlib import Path
from tests.jobs.runs import MACHINE, mock_order
from tvm_ios.jobs.core.policies import PolicyName, policy_named
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios.jobs.daemon.daemon import Daemon, sole_daemon
from tvm_ios.jobs.state_folder import StateFolder

async def main(folder):
    daemon = Daemon(Scheduler(MACHINE, policy_named(PolicyName.SLACK)), folder)
    daemon.resume()
    slow = {sys.argv[2]: 0.6}
    burns = "build_s" in slow  # in a process below
    daemon.submit([mock_order(name, 3, burns=burns, **slow) for name in ("a", "b")])
    await daemon.all_ended()
    await daemon.close()

folder = StateFolder(Path(sys.argv[1]))
with sole_daemon(folder):
    asyncio.run(main(folder))
"""


@pytest.fixture
def start_daemon(folder, project_root):
    """Starts a daemon in a process of its own; stages of one kind are slow."""

    def start(slow):
        environment = {**os.environ, "PYTHONPATH": str(project_root)}
        command = [sys.executable, "-c", DAEMON, str(folder.path), slow]
        return subprocess.Popen(command, cwd=project_root, env=environment)

    return start


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind is StageKind.PROFILE else pytest.mark.full)
        for kind in COMPUTING
    ],
    ids=str,
)
def test_a_daemon_that_is_killed_in_a_stage_repeats_no_batch(folder, start_daemon, kind):
    place = 4 + COMPUTING.index(kind)
    daemon = start_daemon(f"{kind.value}_s")
    while len(stage_begins(folder.jobs / "a")) <= place:
        assert daemon.poll() is None
        time.sleep(0.01)
    daemon.kill()
    daemon.wait()
    assert start_daemon(f"{kind.value}_s").wait(LONG_S) == 0
    assert measured_batches(folder.jobs / "a") == (2, 6, 10)
    assert set(measured_batches(folder.jobs / "b")) == {2, 6, 10}
    assert not processes_of(folder)


def test_nothing_outlives_a_killed_daemon_and_nothing_is_lost(folder, start_daemon):
    def start():
        return start_daemon("build_s")

    measured = 0
    for wanted in (1, 3):
        daemon = start()
        while measured < wanted:
            assert daemon.poll() is None
            time.sleep(0.01)
            measured = sum(len(measured_batches(folder.jobs / name)) for name in "ab")
        daemon.kill()
        daemon.wait()
    # The next one does not even wait for the guard.
    assert start().wait(LONG_S) == 0
    for name in "ab":
        batches = measured_batches(folder.jobs / name)
        assert set(batches) == {2, 6, 10}
        assert len(batches) <= 3 + 2, "more than the batch in flight was measured again"
    assert not processes_of(folder)


def test_a_second_daemon_is_refused(folder):
    with (
        sole_daemon(folder),
        pytest.raises(JobError, match=rf"process id {os.getpid()}.*jobs submit"),
        sole_daemon(folder),
    ):
        pass
    with sole_daemon(folder):
        pass
