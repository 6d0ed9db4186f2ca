"""Devices of a real RPC tracker whose servers are killed on the way, and come back."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.jobs.local.runs import CORES, processes_of
from tests.jobs.local.tuned import assert_all_measured_once, tuned_order
from tvm_ios.jobs.core.events import DeviceBack, DeviceLost, StageReleased
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.support.stage_gate import StageKind

pytestmark = pytest.mark.slow


@pytest.fixture
def order(fork, fresh_cache, tmp_path, monkeypatch):
    """A small network for the device with key ``board``."""
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    return tuned_order(fork, tmp_path, device="board", rpc_key="board")


def machine_with(tracker):
    board = Device(
        name="board", kind=DeviceKind.RPC, core=CORES[-1], address=f"{tracker.address}:board"
    )
    return Machine(cores=CORES, devices=(board,))


async def until_stage_of(run, task, kind=StageKind.PROFILE):
    """Wait until the job computes in a stage with this in its name."""
    while True:
        status = run.status("job")
        assert not status.state.ended, status
        if status.cores and status.stage.startswith(kind.value) and task in status.stage:
            return
        await asyncio.sleep(0.002)


@pytest.mark.parametrize(
    "task",
    [
        "conv2d",  # a batch of candidates
        "search",  # stages are priced in a session of ours
    ],
)
def test_a_killed_server_loses_nothing_and_is_taken_back(
    run_daemon, folder, order, fresh_cache, start_rpc_server, task
):
    async def act(run, first):
        work = replace(order.work, rpc_tracker=first.address)
        run.daemon.submit([replace(order, work=work)])
        await until_stage_of(run, task)
        lost = asyncio.ensure_future(run.until(lambda event: isinstance(event, DeviceLost)))
        first.kill()
        assert await lost == DeviceLost("board")
        while run.status("job").waits_for != "device board, which is lost":
            assert not run.status("job").state.ended
            await asyncio.sleep(0.01)
        with start_rpc_server("board"):
            await run.daemon.all_ended()
        assert run.status("job").state is JobState.DONE, run.status("job").reason
        assert run.status("job").attempt == 1
        assert DeviceBack("board") in run.events
        cut = [e for e in run.events if isinstance(e, StageReleased) and not e.finished]
        assert len(cut) == 1

    with start_rpc_server("board") as first:
        run_daemon(lambda run: act(run, first), machine=machine_with(first))
    assert_all_measured_once(fresh_cache / "autotvm.log")
    assert not processes_of(folder)


def test_a_job_waits_for_a_device_that_is_not_there_yet(
    run_daemon, order, bare_tracker, start_rpc_server
):
    async def act(run):
        work = replace(order.work, rpc_tracker=bare_tracker.address)
        run.daemon.submit([replace(order, work=work)])
        while run.status("job").waits_for != "device board, which is lost":
            assert not run.status("job").state.ended
            await asyncio.sleep(0.01)
        with start_rpc_server("board"):
            await until_stage_of(run, "conv2d", StageKind.BUILD)

    run_daemon(act, machine=machine_with(bare_tracker))
