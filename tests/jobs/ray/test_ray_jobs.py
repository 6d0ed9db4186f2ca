"""Jobs on the nodes of a Ray cluster: nodes go and come, and nothing is lost."""

from __future__ import annotations

import asyncio

import pytest

from tests.jobs.local.runs import CORES, LONG_S, Run, mock_order
from tvm_ios.jobs.core.events import NodeLost
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.jobs_file import ExecutorName, JobsFile, SchedulerTable
from tvm_ios.jobs.local.daemon import DAEMON_MARK, Daemon, sole_daemon
from tvm_ios.jobs.mock_work import measured_batches
from tvm_ios.jobs.ray.connection import node_mark
from tvm_ios.jobs.ray.open_cluster import ray_executor
from tvm_ios.jobs.state_folder import StateFolder
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
