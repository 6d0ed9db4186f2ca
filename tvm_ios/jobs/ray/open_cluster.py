"""A Ray cluster as an executor of jobs: who decides, and who makes the workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from ray.exceptions import RayError

from tvm_ios.errors import JobError
from tvm_ios.jobs.core.cluster import Cluster
from tvm_ios.jobs.core.events import NodeJoined
from tvm_ios.jobs.core.policies import policy_named
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios.jobs.executor import JobCore, MakeWorkers
from tvm_ios.jobs.jobs_file import JobsFile
from tvm_ios.jobs.ray.connection import Hiring, Node, connected
from tvm_ios.jobs.ray.workers import RayWorkers
from tvm_ios.jobs.state_folder import StateFolder

__all__ = ["ray_executor"]


@asynccontextmanager
async def ray_executor(
    file: JobsFile, folder: StateFolder
) -> AsyncIterator[tuple[JobCore, MakeWorkers]]:
    """Inside, this process is a driver of the cluster that a file names.

    Each node has a policy and limits of its own, as the file says.

    Raises
    ------
    JobError
        If no cluster answers, or none of the nodes that jobs may use is there.
    """

    def scheduler(machine: Machine, epoch: int) -> Scheduler:
        policy = policy_named(file.scheduler.policy)
        return Scheduler(machine, policy, file.scheduler.limits, epoch=epoch)

    with connected(file.scheduler.ray_address) as head:
        hiring = Hiring(file.devices, folder)
        nodes = await _hired(hiring)
        if not nodes:
            wanted = ", ".join(sorted({device.node for device in file.devices}))
            raise JobError(
                f"the Ray cluster has no node {wanted or 'with processors'}; start one: ray start "
                "--address=HEAD:6379 --node-name=NAME"
            )
        cluster = Cluster(file.devices, scheduler)
        for node in nodes:
            cluster.handle(NodeJoined(node.name, node.machine), 0.0)
        yield cluster, lambda say, fail: RayWorkers(hiring, head, nodes, say, fail)


async def _hired(hiring: Hiring) -> list[Node]:
    """An agent on each node; none on those that have gone and that Ray still takes to be there."""
    found = []
    for node_id, name in hiring.nodes().items():
        with suppress(RayError):
            found.append(await hiring.hire(node_id, name))
    return found
