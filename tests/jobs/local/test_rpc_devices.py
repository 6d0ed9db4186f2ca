"""Devices of a real RPC tracker whose servers are killed on the way, and come back."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace

import pytest

from tests.jobs.runs import CORES, LONG_S, mock_order, processes_of
from tests.jobs.tuned import CONFIG, assert_all_measured_once, tuned_order
from tests.rpc_processes import HOST, server_process, tracker_process
from tvm_ios.jobs.core.events import DeviceBack, DeviceLost, StageReleased
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.local.lost_devices import LostDevices, _answers
from tvm_ios.jobs.tracker import TrackerAddress
from tvm_ios.support.stage_gate import StageKind

pytestmark = pytest.mark.slow


@pytest.fixture
def order(fork, fresh_cache, tmp_path, monkeypatch):
    """A small network for the device with key ``board``."""
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    return tuned_order(fork, tmp_path, device="board", key="board")


def machine_with(*boards, names=("board", "other")):
    devices = (
        Device(name=name, kind=DeviceKind.RPC, address=f"{board.address}:board", key="board")
        for name, board in zip(names, boards, strict=False)
    )
    return Machine(cores=CORES, devices=tuple(devices))


@pytest.fixture
def elsewhere(bare_tracker):
    """A tracker of its own, with a board that has the same key."""
    port = free_port()
    with tracker_process(port), server_process(free_port(), port, "board") as process:
        board = replace(bare_tracker, port=port, key="board", server=process)
        deadline = time.monotonic() + LONG_S
        while not asyncio.run(TrackerAddress.of(f"{board.address}:board").servers()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield board


def free_port():
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        return taken.getsockname()[1]


async def until_profile_of(run, task):
    """Wait until the job computes in a stage with this in its name."""
    while True:
        status = run.status("job")
        assert not status.state.ended, status
        if (
            status.cores
            and status.stage.startswith(StageKind.PROFILE.value)
            and task in status.stage
        ):
            return
        await asyncio.sleep(0.01)


@pytest.mark.usefixtures("planted_folder")
def test_who_asks_a_device_runs_nothing_of_the_working_directory(loopback_tracker):
    address = f"{loopback_tracker.address}:loopback"
    assert asyncio.run(_answers(Device(name="board", kind=DeviceKind.RPC, address=address)))


@pytest.mark.parametrize(
    "task",
    [
        pytest.param("conv2d", marks=pytest.mark.full),  # a batch of candidates
        "search",  # stages are priced in a session of ours
    ],
)
def test_a_killed_server_loses_nothing_and_is_taken_back(
    run_daemon, folder, order, fresh_cache, start_rpc_server, task
):
    async def act(run, first):
        run.daemon.submit([order])
        await until_profile_of(run, task)
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


@pytest.mark.full  # batches move in tests of tuners, a session comes back in make test
@pytest.mark.parametrize("task", ["conv2d", "search"])
def test_what_a_lost_board_leaves_goes_to_another_that_is_alike(
    run_daemon, folder, order, tmp_path, start_rpc_server, elsewhere, task
):
    async def act(run, boards):
        spec = replace(order.spec, device="")
        run.daemon.submit([replace(order, spec=spec)])
        await until_profile_of(run, task)
        lost = run.status("job").device
        boards[lost].kill()
        await run.daemon.all_ended()
        assert run.status("job").state is JobState.DONE, run.status("job").reason
        assert run.status("job").attempt == 1
        assert DeviceLost(lost) in run.events
        assert DeviceBack(lost) not in run.events
        assert [s.finished for s in run.daemon.spans() if s.device == lost][-1] is False

    with start_rpc_server("board") as first:
        machine = machine_with(first, elsewhere)
        boards = {"board": first, "other": elsewhere}
        run_daemon(lambda run: act(run, boards), machine=machine)
    assert_all_measured_once(tmp_path / "cache" / "autotvm.log")
    assert not processes_of(folder)


def test_two_jobs_share_a_board(run_daemon, fork, order, tmp_path, start_rpc_server):
    """One prices stages while the other one tunes kernels."""
    other = tuned_order(fork, tmp_path, name="other", key="board")
    # Threads are the board's, and a profile takes one core here all the same.
    tuning = CONFIG["tuning"] | {"trials": 1, "threads": len(CORES) + 1}
    other = replace(other, work=replace(other.work, config=CONFIG | {"tuning": tuning}))
    prices = {name: table for name, table in CONFIG.items() if name != "tuning"}
    order = replace(order, work=replace(order.work, config=prices))

    async def act(run):
        run.daemon.submit([order, other])
        await run.daemon.all_ended()
        states = {status.name: status.state for status in run.daemon.status()}
        assert set(states.values()) == {JobState.DONE}, run.daemon.status()
        assert not any(isinstance(event, DeviceLost) for event in run.events)

    with start_rpc_server("board") as board:
        run_daemon(act, machine=machine_with(board))


def test_one_of_two_boards_under_one_key_is_lost_and_comes_back(start_rpc_server):
    async def act(first):
        told = asyncio.Queue()
        devices = machine_with(first, first).devices
        lost = LostDevices(devices, told.put_nowait)
        try:
            first.kill()
            gone = await asyncio.wait_for(told.get(), LONG_S)
            assert isinstance(gone, DeviceLost)
            await asyncio.sleep(2.5)
            assert told.empty()
            with start_rpc_server("board"):
                assert await asyncio.wait_for(told.get(), LONG_S) == DeviceBack(gone.device)
        finally:
            await lost.close()

    with start_rpc_server("board") as first, start_rpc_server("board"):
        asyncio.run(act(first))


def test_a_job_waits_for_a_device_that_is_not_there_yet(run_daemon, bare_tracker, start_rpc_server):
    job = mock_order("job")
    spec = replace(job.spec, device="board", kind=DeviceKind.RPC, key="board")

    async def act(run):
        run.daemon.submit([replace(job, spec=spec)])
        while run.status("job").waits_for != "device board, which is lost":
            assert not run.status("job").state.ended
            await asyncio.sleep(0.01)
        with start_rpc_server("board"):
            await run.daemon.all_ended()
        assert run.status("job").state is JobState.DONE

    run_daemon(act, machine=machine_with(bare_tracker))
