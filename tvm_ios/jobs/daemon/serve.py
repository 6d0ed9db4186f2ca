"""Runs a daemon in this process: until all its jobs have ended, or until it is told to go."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import Protocol

from tvm_ios.jobs.core.policies import policy_named
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.daemon.daemon import Daemon, sole_daemon
from tvm_ios.jobs.daemon.live_table import LiveTable
from tvm_ios.jobs.daemon.unix_socket import listening
from tvm_ios.jobs.executor import JobCore, MakeWorkers
from tvm_ios.jobs.jobs_file import JobsFile
from tvm_ios.jobs.scheduler_table import ExecutorName
from tvm_ios.jobs.state_folder import StateFolder

__all__ = ["Watcher", "run_daemon"]

_LOOK_S = 1.0
Executor = AbstractAsyncContextManager[tuple[JobCore, MakeWorkers | None]]


class Watcher(Protocol):
    """Whoever follows how the jobs of a daemon stand."""

    def show(self) -> None:
        """Look at them, as once a second."""

    def close(self) -> None:
        """Look for the last time."""


def run_daemon(
    file: JobsFile,
    folder: StateFolder,
    *,
    stays: bool,
    tell: Callable[[str], None],
    watcher: Callable[[Daemon], Watcher] = lambda daemon: LiveTable(daemon.status),
) -> tuple[JobStatus, ...]:
    """Run the jobs of a file, and those that an earlier daemon of the folder has left.

    Return how all jobs stand when it goes; one that ``stays`` goes on listening when all have
    ended. ``tell`` is told in words what it begins with, and ``watcher`` makes whoever follows the
    jobs: a table on standard error where it is omitted.
    """

    async def main() -> tuple[JobStatus, ...]:
        async with _EXECUTORS[file.scheduler.executor](file, folder) as (core, workers):
            daemon = Daemon(core, folder, workers=workers)
            return await _run(daemon, file, folder, stays=stays, tell=tell, watcher=watcher)

    with _beside(file.machine), sole_daemon(folder):
        return asyncio.run(main())


async def _run(
    daemon: Daemon,
    file: JobsFile,
    folder: StateFolder,
    *,
    stays: bool,
    tell: Callable[[str], None],
    watcher: Callable[[Daemon], Watcher],
) -> tuple[JobStatus, ...]:
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    assert this is not None
    terminated = False

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        this.cancel()

    # asyncio makes a cancellation of Ctrl-C by itself, but not of SIGTERM.
    loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        left = daemon.resume()
        if left:
            tell(f"goes on with {', '.join(left)}")
        new = daemon.submit(file.orders)
        done = [order.spec.name for order in file.orders if order.spec.name not in (*new, *left)]
        if done:
            tell(f"done before: {', '.join(done)}")
        async with listening(daemon, folder.socket):
            follower = watcher(daemon)
            following = asyncio.ensure_future(_follow(follower, daemon))
            try:
                await (daemon.fault() if stays else daemon.all_ended())
            finally:
                following.cancel()
                follower.close()
        return daemon.status()
    except asyncio.CancelledError:
        if terminated:
            raise KeyboardInterrupt from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        await daemon.close()


@asynccontextmanager
async def _local(
    file: JobsFile, _folder: StateFolder
) -> AsyncIterator[tuple[JobCore, MakeWorkers | None]]:
    policy = policy_named(file.scheduler.policy)
    yield Scheduler(file.machine, policy, file.scheduler.limits), None


def _ray(file: JobsFile, folder: StateFolder) -> Executor:
    from tvm_ios.jobs.ray.open_cluster import ray_executor  # noqa: PLC0415 - it imports Ray

    return ray_executor(file, folder)


_EXECUTORS: Mapping[ExecutorName, Callable[[JobsFile, StateFolder], Executor]] = {
    ExecutorName.LOCAL: _local,
    ExecutorName.RAY: _ray,
}


@contextmanager
def _beside(machine: Machine) -> Iterator[None]:
    """Inside, this process, and what it starts until it is pinned, is on no device's core.

    Where every core is a device's, it stays where it is.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - {device.core for device in machine.devices} or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


async def _follow(watcher: Watcher, daemon: Daemon) -> None:
    """Have somebody look again and again; what goes wrong there ends the daemon."""
    try:
        with suppress(asyncio.CancelledError):
            while True:
                watcher.show()
                await asyncio.sleep(_LOOK_S)
    except Exception as error:  # noqa: BLE001 - whoever waits for the end is told
        daemon.fail(error)
