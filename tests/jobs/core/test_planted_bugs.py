"""Schedulers with a bug each, all of which the machine of states finds: so its silence tells."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, run_state_machine_as_test

from tests.jobs.core.test_machine_of_states import Jobs
from tvm_ios.jobs.core.job_table import JobTable
from tvm_ios.jobs.core.leases import Leases, Requests
from tvm_ios.jobs.core.occupancy import Occupancy
from tvm_ios.jobs.core.policies import PolicyName
from tvm_ios.jobs.core.scheduler import Scheduler

LOOK = settings(
    max_examples=4000,  # it stops at the first that fails
    stateful_step_count=50,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
_take, _claim = Occupancy.take, Occupancy.claim
_give_back, _released = Leases.give_back, Scheduler._released


def keep_the_device_free(occupancy, holding, now):
    driven = _take(occupancy, holding, now)
    device = holding.lease.device
    if device:
        occupancy._free_devices[device] = occupancy._devices[device]
    return driven


def keep_all_cores(occupancy, need, wish, barred):
    _claim(occupancy, need, wish, barred)
    barred.cores.update(occupancy._cores)


def forget_a_release(leases, job, now):
    """A profile's cores stay taken; its device does not."""
    holding = _give_back(leases, job, now)
    if holding.lease.need.kind.measures:
        for number in holding.cores:
            leases.occupancy._cores[number].owner = holding.lease.epoch
            leases.occupancy._index(leases.occupancy._cores[number])
    return holding


def ignore_the_epoch(scheduler, event):
    holding = scheduler._leases.of(event.job)
    if holding is not None:
        event = replace(event, epoch=holding.lease.epoch)
    _released(scheduler, event)


BUGS = {
    "two profiles on a device": (Occupancy, "take", keep_the_device_free),
    "a release is forgotten": (Leases, "give_back", forget_a_release),
    "nobody grows too old": (Requests, "too_old", lambda *_: ()),
    "nothing is kept for who is too old": (Occupancy, "claim", lambda *_: None),
    "cores are kept for lost devices": (Occupancy, "claim", keep_all_cores),
    "a late release counts": (Scheduler, "_released", ignore_the_epoch),
    "nobody waits for re-pins": (Occupancy, "is_ready", lambda *_: True),
    "a lost device is granted": (Occupancy, "lose", lambda self, name: self._lost.add(name)),
    "too many workers": (JobTable, "free_workers", property(lambda _: 1)),
}


PLACES = {
    "two profiles on a device": "a core and a GPU",
    "nothing is kept for who is too old": "two cores, one is the device",
    "nobody grows too old": "one core",
    "cores are kept for lost devices": "one core",
    "a late release counts": "one core",
    "nobody waits for re-pins": "two cores, one is the device",
}
"""Machines that show what takes hundreds of examples among all machines and policies."""


def jobs_of(machine):
    """The machine of states, on one machine and by the plainest policy."""

    class JobsOfOneMachine(Jobs):
        begin = None

        @initialize(max_active=st.integers(2, 5), data=st.data())
        def begin_there(self, max_active, data):
            Jobs.begin(self, machine, PolicyName.FIFO, max_active, data)

    return JobsOfOneMachine


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_the_machine_of_states_finds(bug, monkeypatch):
    monkeypatch.setattr(*BUGS[bug])
    jobs = jobs_of(PLACES[bug]) if bug in PLACES else Jobs
    with pytest.raises((AssertionError, AttributeError)):  # of who is moved with no lease
        run_state_machine_as_test(jobs, settings=LOOK)
