"""A daemon in this process, with workers of its own."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.jobs.runs import MACHINE, run_beside_daemon
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName, policy_named
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios.jobs.state_folder import StateFolder


@pytest.fixture
def folder(tmp_path):
    return StateFolder(tmp_path / "jobs")


@pytest.fixture
def run_daemon(folder):
    """Runs a coroutine function beside a daemon, which is given to it as a `Run`."""

    def run(act, *, machine=MACHINE, limits=None, policy=PolicyName.SLACK):
        scheduler = Scheduler(machine, policy_named(policy), limits or Limits())
        return run_beside_daemon(folder, act, nullcontext((scheduler, None)))

    return run
