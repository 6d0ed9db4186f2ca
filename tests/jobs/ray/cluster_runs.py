"""Jobs on a Ray cluster, and a daemon that is watched."""

from __future__ import annotations

import asyncio

from tests.jobs.local.runs import CORES, LONG_S, Run
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.jobs_file import ExecutorName, JobsFile, SchedulerTable
from tvm_ios.jobs.local.daemon import Daemon, sole_daemon
from tvm_ios.jobs.ray.open_cluster import ray_executor


def run_on_cluster(act, cluster, folder, *, devices=(), max_active=4):
    """Run a coroutine function beside a daemon whose workers are on the cluster."""
    file = JobsFile(
        scheduler=SchedulerTable(
            executor=ExecutorName.RAY,
            limits=Limits(max_active=max_active),
            ray_address=cluster.address,
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
