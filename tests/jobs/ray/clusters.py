"""A Ray cluster on this machine: a head that computes nothing, and nodes of one core each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
from ray import cluster_utils

from tests.jobs.runs import CORES, run_beside_daemon
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.jobs_file import JobsFile
from tvm_ios.jobs.ray.open_cluster import ray_executor
from tvm_ios.jobs.scheduler_table import ExecutorName, SchedulerTable
from tvm_ios.jobs.state_folder import DAEMON_MARK

MEMORY = 100 << 20  # bytes, the least that Ray takes, and more than it needs here
LITTLE = {
    "object_store_memory": MEMORY,
    "include_dashboard": False,
    "include_log_monitor": False,
    "no_monitor": True,
}
"""What a node is started with: none of the processes that these tests do without."""


@dataclass
class RayCluster:
    """Nodes by name; what a test has taken away, it gives back."""

    cluster: object
    nodes: dict = field(default_factory=dict)

    @property
    def address(self):
        return self.cluster.address

    def add(self, name, core):
        """A node whose processes are all on one core."""
        with pinned(core), unmarked():
            self.nodes[name] = self.cluster.add_node(node_name=name, num_cpus=1, **LITTLE)

    def remove(self, name):
        """Take a node away as a power cut does."""
        self.cluster.remove_node(self.nodes.pop(name), allow_graceful=False)

    @property
    def head_process(self):
        """Process that a cluster cannot be without; Ray ends those connected a minute later."""
        (server,) = self.cluster.head_node.all_processes["gcs_server"]
        return server.process.pid


@contextmanager
def pinned(core) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def unmarked() -> Iterator[None]:
    """Inside, what is started is none of a daemon's processes."""
    mark = os.environ.pop(DAEMON_MARK, None)
    try:
        yield
    finally:
        if mark is not None:
            os.environ[DAEMON_MARK] = mark


@contextmanager
def running_cluster(project_root) -> Iterator[RayCluster]:
    """A head, and the nodes a and b."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(project_root))
        patch.setenv("RAY_worker_niceness", "0")
        cluster = cluster_utils.Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "node_name": "head", **LITTLE},
        )
        ours = RayCluster(cluster)
        try:
            for name, core in zip("ab", (CORES[0], CORES[-1]), strict=True):
                ours.add(name, core)
            yield ours
        finally:
            cluster.shutdown()


def run_on_cluster(act, address, folder, *, devices=(), max_active=4):
    """Run a coroutine function beside a daemon whose workers are on the cluster at an address."""
    file = JobsFile(
        scheduler=SchedulerTable(
            executor=ExecutorName.RAY,
            limits=Limits(max_active=max_active),
            ray_address=address,
        ),
        machine=Machine(cores=CORES, devices=()),
        orders=(),
        devices=devices,
    )
    return run_beside_daemon(folder, act, ray_executor(file, folder))
