"""Jobs on the nodes of a Ray cluster: nodes go and come, and nothing is lost."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from tests.jobs.local.runs import CORES, LONG_S, Run, mock_order
from tests.jobs.local.tuned import assert_all_measured_once, tuned_order
from tvm_ios.errors import JobError
from tvm_ios.jobs.core.events import NodeLost, ProgressTold
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.jobs_file import ExecutorName, JobsFile, SchedulerTable
from tvm_ios.jobs.local.daemon import DAEMON_MARK, Daemon, sole_daemon
from tvm_ios.jobs.mock_work import measured_batches
from tvm_ios.jobs.ray import workers
from tvm_ios.jobs.ray.connection import node_mark
from tvm_ios.jobs.ray.open_cluster import ray_executor
from tvm_ios.jobs.state_folder import StateFolder
from tvm_ios.jobs.store import JobStore
from tvm_ios.support.stage_gate import StageKind
from tvm_ios.tuning.guard import marked_processes

pytestmark = [pytest.mark.slow, pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")]


@pytest.fixture
def folder(tmp_path):
    return StateFolder(tmp_path / "jobs")


@pytest.fixture
def run_on(ray_cluster, folder):
    """Runs a coroutine function beside a daemon whose workers are on the cluster."""

    def run(act, *, devices=(), max_active=4):
        file = JobsFile(
            scheduler=SchedulerTable(
                executor=ExecutorName.RAY,
                limits=Limits(max_active=max_active),
                ray_address=ray_cluster.address,
            ),
            machine=Machine(cores=CORES, devices=()),
            orders=(),
            devices=devices,
        )

        async def main():
            heard = Run(folder)
            async with ray_executor(file, folder) as (core, workers):
                heard.daemon = Daemon(core, folder, heard.hear, workers=workers)
                try:
                    return await asyncio.wait_for(act(heard), 2 * LONG_S)
                finally:
                    await heard.daemon.close()

        with sole_daemon(folder):
            return asyncio.run(main())

    return run


def left_on(folder, *nodes):
    return [p for node in nodes for p in marked_processes(node_mark(folder, node), DAEMON_MARK)]


def node_of(run, job):
    """The node that has a job's worker."""
    return run.daemon._workers._places[job].node.name


def test_jobs_run_on_all_nodes_and_a_node_that_goes_loses_none_of_them(run_on, ray_cluster, folder):
    names = [f"job{number}" for number in range(4)]

    async def act(run):
        run.daemon.submit([mock_order(name, 3, profile_s=0.4) for name in names])
        await run.until_in("job0", StageKind.PROFILE)
        assert {node_of(run, name) for name in names} == {"a", "b"}
        gone = run.status("job0").device
        ray_cluster.remove(gone)
        lost = await run.until(lambda event: isinstance(event, NodeLost))
        assert lost == NodeLost(gone)
        ray_cluster.add(gone, CORES[0] if gone == "a" else CORES[-1])
        await run.daemon.all_ended()
        assert {run.status(name).state for name in names} == {JobState.DONE}
        assert sum(run.status(name).attempt for name in names) == 6  # two had to move

    run_on(act)
    for name in names:
        assert measured_batches(folder.jobs / name) == (2, 6, 10)
    assert not left_on(folder, "a", "b")


def test_a_real_job_moves_with_its_records_when_its_node_goes(
    run_on, ray_cluster, folder, fork, fresh_cache, tmp_path, monkeypatch
):
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    log = fresh_cache / "autotvm.log"

    async def act(run):
        run.daemon.submit([tuned_order(fork, tmp_path)])
        await run.until(lambda event: isinstance(event, ProgressTold))
        await run.until_in("job", StageKind.PROFILE)
        gone = run.status("job").device
        ray_cluster.remove(gone)
        await run.daemon.all_ended()
        assert run.status("job").state is JobState.DONE, run.status("job").reason
        assert run.status("job").attempt == 2
        ray_cluster.add(gone, CORES[0] if gone == "a" else CORES[-1])

    run_on(act)
    assert_all_measured_once(log)
    assert (folder.jobs / "job" / "run").exists()
    assert not left_on(folder, "a", "b")


def test_what_a_file_asks_for_and_the_cluster_lacks_is_named(run_on, ray_cluster):
    missing = Device(name="far", kind=DeviceKind.CORE, core=CORES[0], node="elsewhere")
    with pytest.raises(JobError, match="no node elsewhere; start one: ray start"):
        run_on(None, devices=(missing,))
    other = next(core for core in CORES if core != CORES[0])
    misplaced = Device(name="here", kind=DeviceKind.CORE, core=other, node="a")
    with pytest.raises(JobError, match=f"device 'here' lies on core {other}, and the cores are"):
        run_on(None, devices=(misplaced,))


def test_a_head_that_goes_ends_the_daemon_and_loses_nothing(
    run_on, ray_cluster, folder, monkeypatch
):
    """The last of this file: the cluster is of no use any more."""
    monkeypatch.setattr(workers, "HEAD_SILENT_S", 2.0)

    async def act(run):
        run.daemon.submit([mock_order("long", 3, profile_s=30.0)])
        await run.until_in("long", StageKind.PROFILE)
        ray_cluster.kill_head()
        await run.daemon.all_ended()

    with pytest.raises(JobError, match="the head of the Ray cluster at .* not answered for 2 s"):
        run_on(act)
    assert not left_on(folder, "a", "b")
    with closing(JobStore(folder.database)) as store:
        (job,) = store.jobs()
    assert job.state is JobState.RUNNING
    assert job.order == mock_order("long", 3, profile_s=30.0)
