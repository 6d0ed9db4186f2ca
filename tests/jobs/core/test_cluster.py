"""Jobs on nodes that come and go: each job is on one node, and ends."""

from __future__ import annotations

import random

import pytest

from tvm_ios.errors import JobError, UnknownJobError
from tvm_ios.jobs.core.cluster import Cluster
from tvm_ios.jobs.core.commands import GrantLease, JobChanged, StartWorker, StopWorker
from tvm_ios.jobs.core.events import (
    DeviceBack,
    DeviceLost,
    JobCancelled,
    JobEnded,
    JobSubmitted,
    NodeJoined,
    NodeLost,
    ProgressTold,
    StageReleased,
    StageRequested,
    WorkerDied,
)
from tvm_ios.jobs.core.job_state import JobSpec, JobState
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName, policy_named
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios.support.stage_gate import JobProgress, StageNeed

NODES = {
    name: Machine(
        cores=(2 * number, 2 * number + 1),
        devices=(Device(name=f"on {name}", kind=DeviceKind.CORE, core=2 * number, node=name),),
    )
    for number, name in enumerate("abc")
}
PROFILE = StageNeed.to_profile(1, "t")


def cluster_of(*names, max_active=2):
    def make(machine, epoch):
        limits = Limits(max_active=max_active)
        return Scheduler(machine, policy_named(PolicyName.SLACK), limits, epoch=epoch)

    devices = [device for machine in NODES.values() for device in machine.devices]
    cluster = Cluster(devices, make)
    for name in names:
        assert cluster.handle(NodeJoined(name, NODES[name]), 0.0) == ()
    return cluster


def submit(cluster, name, device=""):
    return cluster.handle(JobSubmitted(JobSpec(name=name, device=device)), 0.0)


def states(cluster):
    return {status.name: status.state for status in cluster.snapshot(0.0)}


def places(commands):
    return [(each.job, each.node) for each in commands if isinstance(each, StartWorker)]


def test_jobs_are_dealt_where_their_device_is_and_where_fewest_are():
    cluster = cluster_of("a", "b")
    assert places(submit(cluster, "first", "on b")) == [("first", "b")]
    assert places(submit(cluster, "second")) == [("second", "a")]
    assert places(submit(cluster, "third", "on c")) == []
    third = cluster.snapshot(0.0)[2]
    assert third.waits_for == "device on c, whose node is lost"
    assert places(cluster.handle(NodeJoined("c", NODES["c"]), 1.0)) == [("third", "c")]
    assert cluster.machine.cores == (0, 1, 2, 3, 4, 5)
    with pytest.raises(JobError, match="no device 'on d'"):
        submit(cluster, "fourth", "on d")
    with pytest.raises(JobError, match="node 'c' joins twice"):
        cluster.handle(NodeJoined("c", NODES["c"]), 1.0)
    with pytest.raises(UnknownJobError, match="no job 'nobody'"):
        cluster.handle(JobCancelled("nobody"), 1.0)


def test_jobs_of_a_lost_node_go_on_elsewhere_and_what_comes_late_changes_nothing():
    cluster = cluster_of("a", "b", max_active=1)
    submit(cluster, "x", "on a")
    submit(cluster, "y")
    (granted,) = cluster.handle(StageRequested("y", PROFILE), 1.0)
    assert (type(granted), granted.lease.device) == (GrantLease, "on b")
    cluster.handle(ProgressTold("y", JobProgress(trials=64, total=640)), 2.0)
    assert cluster.handle(NodeLost("b"), 3.0) == (JobChanged("y", JobState.WAITING),)
    status = cluster.snapshot(3.0)[1]
    assert (status.state, status.trials, status.waits_for) == (JobState.WAITING, 64, "a node")
    assert cluster.handle(StageRequested("y", PROFILE), 3.0) == ()
    moved = cluster.handle(JobEnded("x"), 4.0)
    assert moved[-2:] == (JobChanged("y", JobState.RUNNING), StartWorker("y", 2, "a"))
    (again,) = cluster.handle(StageRequested("y", PROFILE), 5.0)
    assert again.lease.epoch != granted.lease.epoch
    late = StageReleased(job="y", epoch=granted.lease.epoch)
    assert cluster.handle(late, 6.0) == ()
    assert cluster.snapshot(6.0)[1].device == "on a"
    # It had been on its way elsewhere, and is no job of the node that comes back.
    assert cluster.handle(NodeJoined("b", NODES["b"]), 7.0) == ()
    cluster.handle(StageReleased(job="y", epoch=again.lease.epoch), 8.0)
    cluster.handle(JobEnded("y"), 9.0)
    assert cluster.all_ended
    assert states(cluster) == {"x": JobState.DONE, "y": JobState.DONE}


def test_a_job_that_was_to_stop_has_stopped_with_its_node():
    cluster = cluster_of("a")
    submit(cluster, "x")
    submit(cluster, "y", "on b")
    cluster.handle(StageRequested("x", PROFILE), 1.0)
    assert cluster.handle(JobCancelled("x"), 2.0) == (StopWorker("x"),)
    assert cluster.handle(NodeLost("a"), 3.0) == (JobChanged("x", JobState.CANCELLED),)
    assert cluster.handle(JobCancelled("y"), 3.0) == (JobChanged("y", JobState.CANCELLED),)
    assert cluster.all_ended
    assert set(states(cluster).values()) == {JobState.CANCELLED}


class World:
    """Nodes, and what their workers do by chance."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.cluster, self.now = cluster_of(), 0.0
        self.there, self.idle, self.epochs = set(), set(), set()
        self.homes, self.leases = {}, {}

    def say(self, event):
        self.now += self.chance.random()
        for command in self.cluster.handle(event, self.now):
            if isinstance(command, StartWorker):
                assert command.node in self.there
                assert command.job not in self.leases
                self.homes[command.job] = command.node
                self.idle.add(command.job)
            elif isinstance(command, GrantLease):
                self.granted(command.lease)
            elif isinstance(command, JobChanged) and command.state is not JobState.RUNNING:
                self.idle.discard(command.job)

    def granted(self, lease):
        assert lease.device in {device.name for device in NODES[self.homes[lease.job]].devices}
        assert lease.device not in {held.device for held in self.leases.values()}
        assert lease.epoch not in self.epochs
        self.epochs.add(lease.epoch)
        self.leases[lease.job] = lease

    def turn(self, node):
        """Have a node join, or take it away."""
        if node not in self.there:
            self.there.add(node)
            self.say(NodeJoined(node, NODES[node]))
            return
        self.there.discard(node)
        for job in [job for job, home in self.homes.items() if home == node]:
            del self.homes[job]
            self.leases.pop(job, None)
            self.idle.discard(job)
        self.say(NodeLost(node))

    def step(self):
        node, chance = self.chance.choice("abc"), self.chance.random()
        if chance < 0.06:
            self.turn(node)
        elif node in self.there and chance < 0.11:
            self.say(self.chance.choice((DeviceLost, DeviceBack))(f"on {node}"))
        elif self.homes:
            self.work(self.chance.choice(sorted(self.homes)), self.chance.random())

    def work(self, job, chance):
        """Let a worker do what comes next."""
        if job in self.leases:
            self.idle.add(job)
            self.say(StageReleased(job=job, epoch=self.leases.pop(job).epoch))
        elif job in self.idle:
            self.idle.discard(job)
            if chance < 0.3:
                del self.homes[job]
                self.say(JobEnded(job))
            elif chance < 0.4:
                self.say(WorkerDied(job))
            else:
                self.say(StageRequested(job, PROFILE))


@pytest.mark.parametrize("seed", range(30))
def test_whatever_nodes_do_no_device_is_granted_twice_and_all_jobs_end(seed):
    world = World(seed)
    for number in range(8):
        device = world.chance.choice(("", "", "on b"))
        world.say(JobSubmitted(JobSpec(name=f"job{number}", device=device)))
    for _ in range(300):
        world.step()
    for _ in range(3000):
        for node in set("abc") - world.there:
            world.turn(node)
        for node in "abc":
            world.say(DeviceBack(f"on {node}"))
        if world.cluster.all_ended:
            break
        world.step()
    assert world.cluster.all_ended
    assert all(state.ended for state in states(world.cluster).values())
