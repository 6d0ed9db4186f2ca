"""Jobs on the nodes of a Ray cluster: nodes go and come, and nothing is lost."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing

import pytest
import ray

from tests.jobs.ray import lost_head
from tests.jobs.ray.clusters import run_on_cluster
from tests.jobs.runs import CORES, LONG_S, mock_order
from tests.jobs.tuned import assert_all_measured_once, tuned_order
from tvm_ios.errors import JobError
from tvm_ios.jobs.core.events import NodeLost, ProgressTold
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.resources import Device, DeviceKind
from tvm_ios.jobs.ray.connection import connected, node_mark
from tvm_ios.jobs.state_folder import DAEMON_MARK, StateFolder
from tvm_ios.jobs.store import JobStore
from tvm_ios.support.stage_gate import StageKind
from tvm_ios.tuning.guard import marked_processes
from tvm_ios_lab.jobs.simulation.mock_work import measured_batches

pytestmark = [pytest.mark.slow, pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")]


@pytest.fixture
def folder(tmp_path):
    return StateFolder(tmp_path / "jobs")


@pytest.fixture
def run_on(ray_cluster, folder):
    """Runs a coroutine function beside a daemon whose workers are on the cluster."""

    def run(act, *, devices=(), max_active=4):
        return run_on_cluster(
            act, ray_cluster.address, folder, devices=devices, max_active=max_active
        )

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


@pytest.mark.full  # jobs that are not real move in make test, and real ones between workers
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


def test_an_agent_imports_nothing_from_the_working_directory(ray_cluster, planted_folder):
    with connected(ray_cluster.address):
        paths = ray.get(ray.remote(num_cpus=0)(lambda: sys.path).remote())
    assert str(planted_folder) not in paths


def test_what_a_file_asks_for_and_the_cluster_lacks_is_named(run_on, ray_cluster):
    missing = Device(name="far", kind=DeviceKind.CORE, core=CORES[0], node="elsewhere")
    with pytest.raises(JobError, match="no node elsewhere; start one: ray start"):
        run_on(None, devices=(missing,))
    other = next(core for core in CORES if core != CORES[0])
    misplaced = Device(name="here", kind=DeviceKind.CORE, core=other, node="a")
    with pytest.raises(JobError, match=f"device 'here' lies on core {other}, and the cores are"):
        run_on(None, devices=(misplaced,))


def test_a_head_that_goes_ends_the_daemon_and_loses_nothing(ray_cluster, folder, project_root):
    """The last test, as the cluster is lost; in a process of its own, since Ray ends it then."""
    words = map(str, (folder.path, ray_cluster.address, ray_cluster.head_process))
    run = subprocess.run(
        [sys.executable, "-m", "tests.jobs.ray.lost_head", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * LONG_S,
        cwd=project_root,
    )
    assert run.returncode == 0, run.stderr
    assert re.fullmatch(
        r"the head of the Ray cluster at \S+ has not answered for 2 s; what was measured is kept: "
        r"start the head and its nodes again, and jobs go on with the same command\n",
        run.stdout,
    )
    assert not left_on(folder, "a", "b")
    with closing(JobStore(folder.database)) as store:
        (job,) = store.jobs()
    assert job.state is JobState.RUNNING
    assert job.order == lost_head.ORDER
