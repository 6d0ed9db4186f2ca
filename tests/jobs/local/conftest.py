"""A daemon in this process, with workers of its own."""

from __future__ import annotations

import asyncio

import pytest

from tests.jobs.local.runs import LONG_S, MACHINE, Run
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName, policy_named
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios.jobs.local.daemon import Daemon, sole_daemon
from tvm_ios.jobs.state_folder import StateFolder


@pytest.fixture
def folder(tmp_path):
    return StateFolder(tmp_path / "jobs")


@pytest.fixture
def run_daemon(folder):
    """Runs a coroutine function beside a daemon, which is given to it as a `Run`."""

    def run(act, *, machine=MACHINE, limits=None, policy=PolicyName.SLACK):
        async def main():
            heard = Run(folder)
            scheduler = Scheduler(machine, policy_named(policy), limits or Limits())
            heard.daemon = Daemon(scheduler, folder, heard.hear)
            try:
                return await asyncio.wait_for(act(heard), 2 * LONG_S)
            finally:
                await heard.daemon.close()

        with sole_daemon(folder):
            return asyncio.run(main())

    return run
