"""Scripted jobs in real workers, and a daemon that is watched."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field

import pytest

from tvm_ios.host.pinning import descendants
from tvm_ios.jobs.core.events import StageReleased
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.daemon.daemon import Daemon, sole_daemon
from tvm_ios.jobs.order import JobOrder
from tvm_ios.jobs.state_folder import DAEMON_MARK, StateFolder
from tvm_ios.tuning.guard import marked_processes
from tvm_ios_lab.jobs.simulation.mock_job import batched_job
from tvm_ios_lab.jobs.simulation.mock_work import MockWork

LONG_S = 120.0
"""More than a run takes on the slowest machine."""
CORES = tuple(sorted(os.sched_getaffinity(0)))
MACHINE = Machine(cores=CORES, devices=(Device(name="cpu0", kind=DeviceKind.CORE, core=CORES[-1]),))


def mock_order(name, batches=2, *, burns=False, **seconds):
    times = {"search_s": 0.05, "build_s": 0.1, "profile_s": 0.05, "update_s": 0.05} | seconds
    job = batched_job(name, batches, **times)
    return JobOrder(spec=job.spec, work=MockWork(stages=job.stages, burns=burns).called)


@dataclass
class Run:
    """What happened, and who waits for something to happen."""

    folder: StateFolder
    events: list = field(default_factory=list)
    daemon: Daemon | None = None
    _waiting: list = field(default_factory=list)

    def hear(self, event):
        self.events.append(event)
        for wanted, future in self._waiting:
            if not future.done() and wanted(event):
                future.set_result(event)

    async def until(self, wanted):
        """The next event like this."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, future))
        return await asyncio.wait_for(future, LONG_S)

    async def until_stage(self, job, kind):
        """Wait until a job computes in a stage of a kind; its process."""
        await self.until_in(job, kind)
        return self.process(job)

    async def until_in(self, job, kind):
        """Wait until a job computes in a stage of a kind, be it on another machine."""
        deadline = time.monotonic() + LONG_S
        while time.monotonic() < deadline:
            status = self.status(job)
            if status.cores and status.stage.split()[0] == kind.value:
                return
            await asyncio.sleep(0.005)
        pytest.fail(f"{job} never came to {kind}: {self.daemon.status()}")

    def status(self, job):
        (found,) = (each for each in self.daemon.status() if each.name == job)
        return found

    def process(self, job):
        """Process id of a job's worker."""
        return self.daemon._workers._workers[job].process.pid

    def released(self, job):
        return [e for e in self.events if isinstance(e, StageReleased) and e.job == job]


def processes_of(folder):
    """Processes that a daemon of a folder has started, and these, and that live."""
    return marked_processes(folder.mark, DAEMON_MARK)


def affinities(mark_owner):
    """Cores of every thread of a worker's processes."""
    found = set()
    for process in (mark_owner, *descendants(mark_owner)):
        for thread in os.listdir(f"/proc/{process}/task"):
            found.add(tuple(sorted(os.sched_getaffinity(int(thread)))))
    return found


def run_beside_daemon(folder, act, executor):
    """Run a coroutine function beside a daemon, which is given to it as a `Run`.

    The executor, an asynchronous context, gives who decides and who makes the workers.
    """

    async def main():
        heard = Run(folder)
        async with executor as (core, workers):
            heard.daemon = Daemon(core, folder, heard.hear, workers=workers)
            try:
                return await asyncio.wait_for(act(heard), 2 * LONG_S)
            finally:
                await heard.daemon.close()

    with sole_daemon(folder):
        return asyncio.run(main())
