"""Whatever happens in whatever order, and whatever the policy says: what is promised holds.

The test is an executor that does everything late and nothing by the scheduler's own books: who is
on which core follows from commands and acknowledgements alone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tvm_ios.jobs.core.commands import (
    GrantLease,
    JobChanged,
    RePinLease,
    RevokeLease,
    StartWorker,
    StopWorker,
)
from tvm_ios.jobs.core.events import (
    DeviceBack,
    DeviceLost,
    JobCancelled,
    JobEnded,
    JobSubmitted,
    ProgressTold,
    RePinned,
    StageReleased,
    StageRequested,
    Tick,
    WorkerDied,
)
from tvm_ios.jobs.core.job_state import JobSpec, JobState
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName, policy_named
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios.jobs.core.view import Proposal
from tvm_ios.support.stage_gate import JobProgress, StageKind, StageNeed

CORE = Device(name="cpu0", kind=DeviceKind.CORE, core=1)
MACHINES = {
    "two cores, one is the device": Machine(cores=(0, 1), devices=(CORE,)),
    "one core": Machine(cores=(1,), devices=(CORE,)),
    "a core and a GPU": Machine(
        cores=(0, 1, 2), devices=(CORE, Device(name="gpu0", kind=DeviceKind.GPU))
    ),
    "boards": Machine(
        cores=(0, 1, 2, 3),
        devices=(
            Device(name="near", kind=DeviceKind.RPC, core=3, address="host:9190:pi", key="pi"),
            Device(name="far", kind=DeviceKind.RPC, escorted=False, key="pi"),
            Device(name="other", kind=DeviceKind.RPC, key="tpu"),
            Device(name="gpu0", kind=DeviceKind.GPU),
        ),
    ),
}
OLD_S = 50.0


class Silent:
    """Proposes nothing."""

    def choose(self, view):
        return ()


class Raising:
    """Breaks after the first proposal."""

    def choose(self, view):
        for candidate in (*view.stages, *view.starts):
            yield Proposal(candidate.job)
            raise ValueError("no idea")


class Nonsense:
    """Proposes what is not there, everything, and everything again."""

    def choose(self, view):
        yield Proposal("nobody")
        yield Proposal(["nobody"])
        while True:
            for candidate in (*view.starts, *view.stages, *view.profiles):
                yield Proposal(candidate.job, 0)
                yield Proposal(candidate.job, 99)
            yield Proposal("nobody")


FAULTY = {"silent": Silent, "raising": Raising, "nonsense": Nonsense}


@dataclass
class Worker:
    """What an executor knows of a job."""

    spec: JobSpec
    live: bool = False
    stopping: bool = False
    need: StageNeed | None = None
    asked_s: float = 0.0
    lease: object = None
    cores: tuple[int, ...] = ()
    left: set[int] = field(default_factory=set)  # until the re-pin is acknowledged
    acknowledge: list[RePinLease] = field(default_factory=list)
    revoked: bool = False
    ended: bool = False
    trials: int = 0

    @property
    def asking(self):
        return self.live and self.need is not None and self.lease is None

    @property
    def idle(self):
        return self.live and not self.stopping and self.need is None

    @property
    def on(self):
        """Cores where its processes may be right now."""
        return {*self.cores, *self.left} if self.lease else set()


class Jobs(RuleBasedStateMachine):
    @initialize(
        machine=st.sampled_from(list(MACHINES)),
        policy=st.sampled_from([*PolicyName, *FAULTY]),
        max_active=st.integers(2, 5),
        data=st.data(),
    )
    def begin(self, machine, policy, max_active, data):
        self.machine = MACHINES[machine]
        self.limits = Limits(max_active=max_active, max_wait_s=OLD_S, max_start_wait_s=10 * OLD_S)
        self.make_policy = FAULTY[policy] if policy in FAULTY else lambda: policy_named(policy)
        self.scheduler = Scheduler(self.machine, self.make_policy(), self.limits)
        self.workers: dict[str, Worker] = {}
        self.lost: set[str] = set()
        self.now = 0.0
        self.journal = []
        self.epochs = [0]
        self.newest = 0  # epoch of what was taken, be it granted or not
        self.grown = set()  # cores that stages were given back
        for _ in range(4):
            self.submit(data, 640)

    # ---- The executor ----

    def say(self, event):
        commands = self.scheduler.handle(event, self.now)
        self.journal.append((self.now, event, commands))
        self.grown = set()
        for command in commands:
            self.obey(command)
        self.check_age()

    def obey(self, command):
        if isinstance(command, JobChanged):
            worker = self.workers[command.job]
            worker.ended = command.state.ended
            assert not (worker.ended and worker.lease), "ended with a lease"
            worker.live = command.state is JobState.RUNNING
        elif isinstance(command, StartWorker):
            worker = self.workers[command.job]
            assert worker.live
            assert worker.need is None
            assert not worker.ended
        elif isinstance(command, StopWorker):
            worker = self.workers[command.job]
            worker.stopping = True
            if worker.lease is None:
                worker.need = None
        elif isinstance(command, GrantLease):
            self.granted(command.lease)
        elif isinstance(command, RePinLease):
            self.moved(command)
        elif isinstance(command, RevokeLease):
            worker = self.workers[command.job]
            assert worker.lease.epoch == command.epoch
            assert worker.lease.device in self.lost
            worker.revoked = True

    def granted(self, lease):
        worker = self.workers[lease.job]
        others = [other for other in self.workers.values() if other.lease and other is not worker]
        assert worker.asking, "granted what nobody asked for, or twice"
        assert not worker.stopping
        assert lease.need == worker.need
        assert lease.epoch not in self.epochs, "an epoch comes twice"
        assert len(set(lease.cores)) == len(lease.cores)
        assert set(lease.cores) <= set(self.machine.cores)
        for other in others:
            assert not other.on & set(lease.cores), "a core is granted while somebody is on it"
        devices = {device.name: device for device in self.machine.devices}
        if lease.need.kind.measures:
            device = devices[lease.device]
            assert worker.spec.device in ("", lease.device)
            assert worker.spec.device or worker.spec.kind in (None, device.kind)
            assert worker.spec.device or worker.spec.key in ("", device.key)
            assert lease.device not in self.lost
            assert all(other.lease.device != lease.device for other in others)
            assert lease.address == device.address
            if device.core is not None:
                assert device.core in lease.cores
            least = lease.need.least_cores if device.escorted else 0
            assert len(lease.cores) >= least
        else:
            assert lease.device == ""
            assert (
                lease.need.least_cores
                <= len(lease.cores)
                <= max(lease.need.most_cores, lease.need.least_cores)
            )
        self.epochs.append(lease.epoch)
        worker.lease, worker.cores = lease, lease.cores

    def moved(self, command):
        worker = self.workers[command.job]
        assert worker.lease.epoch == command.epoch
        assert not worker.lease.need.kind.measures, "a profile is moved"
        assert command.cores, "a stage has nowhere to be"
        for other in self.workers.values():
            if other.lease and other.lease.need.kind.measures:
                assert not set(command.cores) & set(other.cores), "moved onto a profile"
        if len(command.cores) > len(worker.cores):
            self.grown |= {*command.cores} - {*worker.cores}
        worker.left |= {*worker.cores} - {*command.cores}
        worker.left -= {*command.cores}
        worker.cores = command.cores
        worker.acknowledge.append(command)

    def check_age(self):
        """What a request that is too old could use is taken by nobody younger; no more is kept.

        A lease is taken when the scheduler decides so, and granted when others have left its cores.
        What is promised stays promised, if a request grows too old, or comes back from a device
        that was lost, in between.
        """
        holdings = {name: self.scheduler._leases.of(name) for name in self.workers}
        taken = [has.lease for has in holdings.values() if has and has.lease.epoch > self.newest]
        self.newest = max((self.newest, *(lease.epoch for lease in taken)))
        free = {core for cores in self.scheduler._leases.occupancy._free.values() for core in cores}
        for old in sorted(self.workers.values(), key=lambda worker: worker.asked_s):
            if not old.asking or holdings[old.spec.name] or self.now < old.asked_s + OLD_S:
                continue
            devices, cores = self.of_use(old)
            if not old.need.kind.measures:
                assert len(free) < old.need.least_cores, "cores are kept for nobody"
            free -= cores
            assert not cores & self.grown, "a stage grows over what is kept"
            for lease in taken:
                if self.workers[lease.job].asked_s > old.asked_s:
                    assert lease.device not in devices, "a younger request got its device"
                    assert not cores & set(lease.cores), "a younger request got its core"

    def of_use(self, old):
        """Devices and cores that a request waits for."""
        everywhere = set(self.machine.cores)
        if not old.need.kind.measures:
            return set(), everywhere
        devices = [
            device
            for device in self.machine.devices
            if old.spec.wish.takes(device) and device.name not in self.lost
        ]
        cores = set()
        for device in devices:
            if device.escorted:
                anywhere = device.core is None or old.need.least_cores > 1
                cores |= everywhere if anywhere else {device.core}
        return {device.name for device in devices}, cores

    def some(self, data, test):
        names = sorted(name for name, worker in self.workers.items() if test(worker))
        return self.workers[data.draw(st.sampled_from(names))]

    def forget(self, worker):
        worker.lease, worker.cores, worker.left = None, (), set()
        worker.acknowledge, worker.revoked, worker.need = [], False, None

    # ---- What happens ----

    @rule(seconds=st.sampled_from([7.5, OLD_S, 11 * OLD_S]))
    def time_passes(self, seconds):
        self.now += seconds
        self.say(Tick())

    @precondition(lambda self: len(self.workers) < 8)
    @rule(data=st.data(), trials=st.sampled_from([None, 64, 640]))
    def submit_another(self, data, trials):
        self.submit(data, trials)

    def submit(self, data, trials):
        devices = self.machine.devices
        pins, kinds = ["", *(d.name for d in devices)], [None, *{d.kind: None for d in devices}]
        kind = data.draw(st.sampled_from(kinds))
        keys = {"": None} | {d.key: None for d in devices if d.kind is kind}
        spec = JobSpec(
            name=f"job{len(self.workers)}",
            device=data.draw(st.sampled_from(pins)),
            kind=kind,
            key=data.draw(st.sampled_from(list(keys))),
            trials=trials,
        )
        self.workers[spec.name] = Worker(spec)
        self.say(JobSubmitted(spec))

    @precondition(lambda self: any(w.idle for w in self.workers.values()))
    @rule(data=st.data())
    def all_ask(self, data):
        for worker in list(self.workers.values()):
            if worker.idle:
                least = min(data.draw(st.sampled_from([1, 1, 1, 2])), len(self.machine.cores))
                worker.need = StageNeed(
                    kind=data.draw(st.sampled_from([StageKind.BUILD, StageKind.PROFILE])),
                    least_cores=least,
                    most_cores=least + data.draw(st.sampled_from([0, 0, 3])),
                    task="t",
                )
                worker.asked_s = self.now
                self.say(StageRequested(worker.spec.name, worker.need))
                self.now += 1.0

    @precondition(lambda self: any(w.lease for w in self.workers.values()))
    @rule(data=st.data())
    def release(self, data):
        self.end_stage(self.some(data, lambda w: w.lease is not None))

    @precondition(lambda self: any(w.lease for w in self.workers.values()))
    @rule(data=st.data())
    def release_and_ask(self, data):
        self.end_stage(self.some(data, lambda w: w.lease is not None))
        self.all_ask(data)

    def end_stage(self, worker):
        lease, again = worker.lease, worker.revoked and not worker.stopping
        if lease.need.kind.measures:
            worker.trials += 64
            self.say(ProgressTold(worker.spec.name, JobProgress(trials=worker.trials, total=640)))
        need = worker.need
        self.forget(worker)
        worker.need = need if again else None
        self.say(StageReleased(job=lease.job, epoch=lease.epoch, seconds=1.0, finished=not again))

    @rule(data=st.data(), back=st.integers(0, 5))
    def late_release(self, data, back):
        worker = self.some(data, lambda w: True)
        epoch = max(max(self.epochs) - back, 0)
        if worker.lease and worker.lease.epoch == epoch:
            return
        worker.trials += 1
        self.say(ProgressTold(worker.spec.name, JobProgress(trials=worker.trials)))
        self.say(StageReleased(job=worker.spec.name, epoch=epoch))

    @precondition(lambda self: any(w.acknowledge for w in self.workers.values()))
    @rule(data=st.data())
    def acknowledge(self, data):
        self.acknowledge_one(self.some(data, lambda w: w.acknowledge))

    def acknowledge_one(self, worker):
        command = worker.acknowledge.pop(0)
        if not worker.acknowledge:
            worker.left = set()
        self.say(RePinned(job=command.job, epoch=command.epoch, serial=command.serial))

    @precondition(lambda self: any(w.live for w in self.workers.values()))
    @rule(data=st.data())
    def die(self, data):
        self.kill(self.some(data, lambda w: w.live))

    def kill(self, worker):
        self.forget(worker)
        self.say(WorkerDied(worker.spec.name))

    @precondition(lambda self: any(w.idle for w in self.workers.values()))
    @rule(data=st.data(), reason=st.sampled_from(["", "no such operator"]))
    def end(self, data, reason):
        self.say(JobEnded(self.some(data, lambda w: w.idle).spec.name, reason))

    @precondition(lambda self: len(self.workers) > 5)
    @rule(data=st.data())
    def cancel(self, data):
        self.say(JobCancelled(self.some(data, lambda w: True).spec.name))

    @rule(data=st.data())
    def lose(self, data):
        device = data.draw(st.sampled_from([d.name for d in self.machine.devices]))
        self.lost.add(device)
        self.say(DeviceLost(device))

    @precondition(lambda self: self.lost)
    @rule(data=st.data())
    def find_again(self, data):
        device = data.draw(st.sampled_from(sorted(self.lost)))
        self.lost.discard(device)
        self.say(DeviceBack(device))

    # ---- What holds ----

    @invariant()
    def no_two_profiles_and_nobody_beside_one(self):
        holders = defaultdict(list)
        for worker in self.workers.values():
            if worker.lease and worker.lease.need.kind.measures:
                holders[worker.lease.device].append(worker)
                for other in self.workers.values():
                    assert other is worker or not other.on & set(worker.cores)
        assert all(len(workers) == 1 for workers in holders.values())

    @invariant()
    def no_more_workers_than_allowed(self):
        live = sum(worker.live for worker in self.workers.values())
        assert live <= self.limits.max_active

    @invariant()
    def no_core_is_shared_while_one_is_free(self):
        users = [core for worker in self.workers.values() for core in worker.cores]
        if len(set(users)) < len(users):
            assert self.scheduler._leases.occupancy.free_cores == 0

    @invariant()
    def books_agree_with_what_is_so(self):
        shown = {status.name: status for status in self.scheduler.snapshot(self.now)}
        for name, worker in self.workers.items():
            assert shown[name].trials == worker.trials
            assert shown[name].cores == worker.cores
            assert shown[name].device == (worker.lease.device if worker.lease else "")
            assert (shown[name].eta_s is None) == worker.ended
            assert bool(shown[name].waits_for) >= bool(worker.asking)

    def teardown(self):
        if not hasattr(self, "scheduler"):
            return
        for device in sorted(self.lost):
            self.lost.discard(device)
            self.say(DeviceBack(device))
        for _ in range(300):
            if self.scheduler.all_ended:
                break
            for worker in list(self.workers.values()):
                while worker.acknowledge:
                    self.acknowledge_one(worker)
                if worker.live and worker.stopping:
                    self.kill(worker)
                elif worker.lease:
                    self.end_stage(worker)
                elif worker.live and worker.need is None:
                    self.say(JobEnded(worker.spec.name))
            wake = self.scheduler.wake_at
            self.now = self.now if wake is None else max(self.now, wake)
            self.say(Tick())
        assert self.scheduler.all_ended, "a job never ends"
        occupancy = self.scheduler._leases.occupancy
        assert occupancy.free_cores == len(self.machine.cores)
        assert occupancy.free_devices == len(self.machine.devices)
        twin = Scheduler(self.machine, self.make_policy(), self.limits)
        for now, event, commands in self.journal:
            assert twin.handle(event, now) == commands


# A longer look, with other examples each time: pytest --hypothesis-profile=search -m full THIS FILE
MANY = max(1500, settings.default.max_examples)

TestJobs = Jobs.TestCase
TestJobs.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)


@pytest.mark.full
@pytest.mark.slow(15)
class TestMoreJobs(Jobs.TestCase):
    settings = settings(max_examples=350, stateful_step_count=60, deadline=None)


@pytest.mark.full
@pytest.mark.slow(60)
class TestManyJobs(Jobs.TestCase):
    settings = settings(max_examples=MANY, stateful_step_count=60, deadline=None)


class Drawn:
    """What Hypothesis drew once."""

    def __init__(self, *values):
        self.values = iter(values)

    def draw(self, _strategy):
        return next(self.values)


@pytest.fixture
def board_promised():
    """Job 3 has been promised the near board, and job 1, older, waits for a core."""
    jobs = Jobs()
    jobs.begin("boards", PolicyName.FIFO, 4, Drawn(*4 * [None, "", ""]))
    jobs.lose(Drawn("other"))
    builds = (1, StageKind.BUILD, 3, 1, StageKind.BUILD, 0)
    jobs.all_ask(Drawn(*builds, *2 * [1, StageKind.PROFILE, 0]))
    return jobs


def test_a_promise_older_than_the_age_of_a_request_is_kept(board_promised):
    jobs = board_promised
    jobs.release_and_ask(Drawn("job2", 1, StageKind.BUILD, 0))
    jobs.time_passes(OLD_S)
    jobs.acknowledge(Drawn("job0"))
    assert jobs.workers["job3"].lease.device == "near"
    jobs.teardown()


def test_a_promise_older_than_a_batch_that_came_back_is_kept(board_promised):
    jobs = board_promised
    jobs.acknowledge(Drawn("job0"))
    jobs.lose(Drawn("near"))
    jobs.find_again(Drawn("near"))
    jobs.time_passes(2 * OLD_S)
    jobs.release(Drawn("job3"))
    jobs.die(Drawn("job0"))
    jobs.lose(Drawn("far"))
    jobs.all_ask(Drawn(2, StageKind.PROFILE, 0))
    jobs.release(Drawn("job2"))
    jobs.acknowledge(Drawn("job1"))
    assert jobs.workers["job0"].lease.device == "near"
    assert jobs.workers["job2"].asking
    jobs.teardown()
