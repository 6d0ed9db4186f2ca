"""The state machine that runs many tuning jobs: events go in, commands come out.

It reads no clock, draws no random number and touches nothing outside: the same events at the same
times give the same commands, so a run can be replayed. A policy says who goes first; whether there
is room is decided here, so a faulty policy makes jobs slow and nothing unsafe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tvm_ios.errors import JobError
from tvm_ios.jobs.core.commands import (
    BlameCandidate,
    Command,
    JobChanged,
    ReportPolicy,
    RevokeLease,
    StartWorker,
    StopWorker,
)
from tvm_ios.jobs.core.estimates import Estimates
from tvm_ios.jobs.core.events import (
    DeviceBack,
    DeviceLost,
    Event,
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
from tvm_ios.jobs.core.job_state import Job, JobState
from tvm_ios.jobs.core.leases import Leases
from tvm_ios.jobs.core.load import Load
from tvm_ios.jobs.core.occupancy import Holding
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.core.status import JobStatus, job_status
from tvm_ios.jobs.core.view import Candidate, Policy, Proposal, View
from tvm_ios.support.stage_gate import StageKind, StageNeed

__all__ = ["Limits", "Scheduler"]

_DEATHS = 2
"""Workers that the same stage, or the same candidate, may kill."""
_BEGINNING = StageNeed(kind=StageKind.PREPARE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds that hold whatever the policy says."""

    max_active: int = 4
    """Workers alive at a time; a TVM worker takes about 200 MB."""
    max_wait_s: float = 120.0
    """A stage that has waited longer goes before all younger ones, and what it needs is kept."""
    max_start_wait_s: float = 86400.0
    """A job that has waited longer for its worker is the next to get one."""

    def __post_init__(self) -> None:
        """Refuse bounds under which nothing could run."""
        if self.max_active < 1:
            raise JobError(f"max_active is {self.max_active}: at least 1 worker must be alive")
        if min(self.max_wait_s, self.max_start_wait_s) < 0:
            raise JobError("max_wait_s and max_start_wait_s must not be negative")


class Scheduler:
    """Jobs, their stages, and the machine they share.

    An event takes constant time, but for the policy, which looks at the jobs that wait.
    """

    def __init__(
        self,
        machine: Machine,
        policy: Policy,
        limits: Limits | None = None,
        estimates: Estimates | None = None,
    ) -> None:
        self.machine = machine
        self._policy = policy
        self._limits = limits or Limits()
        self._estimates = estimates or Estimates()
        self._leases = Leases(machine)
        self._load = Load(machine)
        self._jobs: dict[str, Job] = {}
        self._waiting: dict[str, Job] = {}
        self._starts: tuple[Candidate, ...] | None = None
        """Those that wait for a worker; None: it has to be made anew."""
        self._live: Counter[str] = Counter()
        self._now = 0.0
        self._fault = ""
        self._commands: list[Command] = []
        self._handlers: dict[type, Callable[[Any], None]] = {
            JobSubmitted: self._submitted,
            JobCancelled: self._cancelled,
            StageRequested: self._requested,
            StageReleased: self._released,
            ProgressTold: self._told,
            JobEnded: self._ended,
            WorkerDied: self._died,
            DeviceLost: self._lost,
            DeviceBack: self._back,
            RePinned: self._repinned,
            Tick: self._ticked,
        }

    # ---- From outside ----

    def handle(self, event: Event, now: float) -> tuple[Command, ...]:
        """Take note of an event, and say what to do now.

        Parameters
        ----------
        event
            What happened. What comes too late, from a job that has ended or of a lease that is no
            more, changes nothing.
        now
            Seconds since any fixed moment; never less than before.

        Raises
        ------
        JobError
            The event names a job or device that does not exist, or a job anew; or time runs back.
            Nothing has changed then.
        """
        if now < self._now:
            raise JobError(f"{event} at {now} s comes after an event at {self._now} s")
        self._commands = []
        before, self._now = self._now, now
        try:
            self._handlers[type(event)](event)
        except JobError:
            self._now = before
            raise
        self._decide()
        return tuple(self._commands)

    @property
    def wake_at(self) -> float | None:
        """When a request gets too old: say `Tick` then, if nothing else has happened."""
        times = []
        oldest = self._leases.requests.oldest_s()
        if oldest is not None:
            times.append(oldest + self._limits.max_wait_s)
        if self._waiting and self._live.total() < self._limits.max_active:
            first = next(iter(self._waiting.values()))
            times.append(first.submitted_s + self._limits.max_start_wait_s)
        return max(min(times), self._now) if times else None

    @property
    def all_ended(self) -> bool:
        """Whether no job waits or runs."""
        return not self._waiting and not self._live

    def snapshot(self, now: float) -> tuple[JobStatus, ...]:
        """How all jobs stand, in the order of submission."""
        return tuple(
            job_status(
                job,
                self._leases.of(job.spec.name),
                self._leases.requests.get(job.spec.name),
                self._leases.occupancy,
                self._estimates.remaining(job.spec),
                self._load.seconds,
                now,
            )
            for job in self._jobs.values()
        )

    # ---- Events ----

    def _submitted(self, event: JobSubmitted) -> None:
        spec = event.spec
        if not spec.name or spec.name in self._jobs:
            raise JobError(f"job {spec.name!r}: give each job a name of its own")
        names = [device.name for device in self.machine.devices]
        if spec.device and spec.device not in names:
            raise JobError(f"job {spec.name!r} wants device {spec.device!r}; there are: {names}")
        job = Job(spec=spec, number=len(self._jobs), submitted_s=self._now)
        self._jobs[spec.name] = self._waiting[spec.name] = job
        self._starts = None
        self._weigh(job)
        self._say(JobChanged(spec.name, JobState.WAITING))

    def _cancelled(self, event: JobCancelled) -> None:
        job = self._known(event.job)
        if job.state is JobState.WAITING:
            self._finish(job, JobState.CANCELLED)
        elif job.state is JobState.RUNNING:
            self._stop(job, JobState.CANCELLED)

    def _requested(self, event: StageRequested) -> None:
        job = self._known(event.job)
        if job.state is not JobState.RUNNING or job.verdict is not None:
            return
        name, need = job.spec.name, event.need
        has = self._leases.of(name) or self._leases.requests.get(name)
        if has is not None:
            self._stop(job, JobState.FAILED, f"asked for stage {need.kind.value} inside another")
            return
        if not self._leases.occupancy.can_ever(need, job.spec.device):
            reason = (
                f"stage {need.kind.value} needs {need.least_cores} cores"
                f"{' and a device' if need.kind.measures else ''}; the machine has "
                f"{len(self.machine.cores)} and {len(self.machine.devices)} devices"
            )
            self._stop(job, JobState.FAILED, reason)
            return
        job.last_need = need
        job.guess_s = self._estimates.begin(name, need)
        self._weigh(job)
        self._leases.requests.add(self._candidate(job, need, self._now))

    def _released(self, event: StageReleased) -> None:
        job = self._known(event.job)
        holding = self._leases.of(event.job)
        if holding is None or holding.lease.epoch != event.epoch or holding.granted_s is None:
            return
        self._leases.give_back(job.spec.name, self._now)
        need = holding.lease.need
        if not event.finished and job.verdict is None:
            self._leases.requests.add(self._candidate(job, need, holding.asked_s))
            return
        elapsed = self._now - holding.granted_s
        work = holding.work_s
        if event.seconds is not None and elapsed > 0:
            work *= event.seconds / elapsed
        self._estimates.end(job.spec.name, need, job.guess_s, work if event.finished else None)
        job.deaths.pop((need.kind, need.task, ""), None)
        job.deaths.pop((None, "", ""), None)
        self._weigh(job)

    def _told(self, event: ProgressTold) -> None:
        job = self._known(event.job)
        job.progress = event.progress
        if not job.state.ended:
            self._estimates.tell(event.job, event.progress)
            self._weigh(job)

    def _ended(self, event: JobEnded) -> None:
        job = self._known(event.job)
        if job.state is not JobState.RUNNING:
            return
        self._let_go(job)
        state = JobState.FAILED if event.reason else JobState.DONE
        self._finish(job, job.verdict or state, job.reason or event.reason)

    def _died(self, event: WorkerDied) -> None:
        job = self._known(event.job)
        if job.state is not JobState.RUNNING:
            return
        holding = self._let_go(job)
        if job.verdict is not None:
            self._finish(job, job.verdict, job.reason)
            return
        if holding is None or not holding.revoked:
            need = holding.lease.need if holding is not None else None
            key = (need.kind if need else None, need.task if need else "", event.candidate)
            job.deaths[key] += 1
            if job.deaths[key] >= _DEATHS:
                if not event.candidate:
                    where = f"in stage {need.kind.value} {need.task}" if need else "between stages"
                    reason = f"its worker died {_DEATHS} times {where}".rstrip()
                    self._finish(job, JobState.FAILED, reason)
                    return
                del job.deaths[key]
                self._say(BlameCandidate(job.spec.name, event.candidate))
        self._start_worker(job)

    def _lost(self, event: DeviceLost) -> None:
        self._require_device(event.device)
        if self._leases.occupancy.is_lost(event.device):
            return
        self._leases.occupancy.lose(event.device)
        holding = self._leases.occupancy.holder(event.device)
        if holding is None:
            return
        job = self._jobs[holding.lease.job]
        if holding.granted_s is None:
            self._leases.give_back(job.spec.name, self._now)
            self._leases.requests.add(self._candidate(job, holding.lease.need, holding.asked_s))
            return
        holding.revoked = True
        if job.verdict is None:
            self._say(RevokeLease(holding.lease.job, holding.lease.epoch))

    def _back(self, event: DeviceBack) -> None:
        self._require_device(event.device)
        if self._leases.occupancy.is_lost(event.device):
            self._leases.occupancy.regain(event.device)

    def _repinned(self, event: RePinned) -> None:
        self._known(event.job)
        self._leases.acknowledge(event.job, event.epoch, event.serial)

    def _ticked(self, _event: Tick) -> None:
        """Only time has passed."""

    # ---- Jobs ----

    def _known(self, name: str) -> Job:
        job = self._jobs.get(name)
        if job is None:
            raise JobError(f"there is no job {name!r}; submit it first")
        return job

    def _require_device(self, name: str) -> None:
        names = [device.name for device in self.machine.devices]
        if name not in names:
            raise JobError(f"there is no device {name!r}; there are: {names}")

    def _say(self, command: Command) -> None:
        self._commands.append(command)

    def _weigh(self, job: Job) -> None:
        left = None if job.state.ended else self._estimates.remaining(job.spec)
        self._load.set(job.spec.name, job.spec.device, left)

    def _candidate(self, job: Job, need: StageNeed, asked_s: float) -> Candidate:
        spec = job.spec
        return Candidate(
            job=spec.name,
            number=job.number,
            device=spec.device,
            need=need,
            asked_s=asked_s,
            left=self._estimates.remaining(spec),
        )

    def _start_worker(self, job: Job) -> None:
        name = job.spec.name
        if job.state is JobState.WAITING:
            del self._waiting[name]
            self._starts = None
            self._live[job.spec.device] += 1
            job.state = JobState.RUNNING
            job.started_s = self._now
            self._say(JobChanged(name, JobState.RUNNING))
        job.attempt += 1
        job.last_need = None
        self._say(StartWorker(name, job.attempt))

    def _stop(self, job: Job, verdict: JobState, reason: str = "") -> None:
        """Have a worker stopped; its lease stays until it is gone."""
        if job.verdict is not None:
            return
        job.verdict, job.reason = verdict, reason
        if self._leases.requests.remove(job.spec.name) is not None:
            self._cut_short(job)
        holding = self._leases.of(job.spec.name)
        if holding is not None and holding.granted_s is None:
            self._leases.give_back(job.spec.name, self._now)
            self._cut_short(job)
        self._say(StopWorker(job.spec.name))

    def _finish(self, job: Job, state: JobState, reason: str = "") -> None:
        name, device = job.spec.name, job.spec.device
        if job.state is JobState.RUNNING:
            self._live[device] -= 1
            if not self._live[device]:
                del self._live[device]
        self._waiting.pop(name, None)
        self._starts = None
        job.state, job.reason, job.ended_s = state, reason, self._now
        self._estimates.forget(name)
        self._weigh(job)
        self._say(JobChanged(name, state, reason))

    def _let_go(self, job: Job) -> Holding | None:
        """Take from a job whose worker is gone what it has or waits for."""
        if self._leases.requests.remove(job.spec.name) is not None:
            self._cut_short(job)
        holding = self._leases.of(job.spec.name)
        if holding is not None:
            self._leases.give_back(job.spec.name, self._now)
            self._cut_short(job)
        return holding

    def _cut_short(self, job: Job) -> None:
        if job.last_need is not None:
            self._estimates.end(job.spec.name, job.last_need, job.guess_s, None)

    # ---- Decisions ----

    def _decide(self) -> None:
        self._commands += self._leases.settle(self._now, self._limits.max_wait_s)
        self._start_overdue()
        for proposal in self._proposals():
            waiting = self._waiting.get(proposal.job)
            asked = self._leases.requests.get(proposal.job)
            if waiting is not None and self._free_workers > 0:
                self._start_worker(waiting)
            elif asked is not None:
                self._commands += self._leases.grant(asked, self._now, proposal.most_cores)
            if not self._has_room():
                break
        if not self._live and self._waiting:
            # Whatever the policy thinks of them: somebody must go on.
            self._start_worker(next(iter(self._waiting.values())))
        self._commands += self._leases.spread(self._now)

    @property
    def _free_workers(self) -> int:
        return self._limits.max_active - self._live.total()

    def _has_room(self) -> bool:
        """Whether anything is free that somebody waits for."""
        return bool(self._waiting and self._free_workers > 0) or self._leases.has_room()

    def _start_overdue(self) -> None:
        while self._waiting and self._free_workers > 0:
            first = next(iter(self._waiting.values()))
            if self._now < first.submitted_s + self._limits.max_start_wait_s:
                return
            self._start_worker(first)

    def _proposals(self) -> Iterator[Proposal]:
        """What the policy says, as far as it makes sense."""
        if not self._has_room():
            return
        most = len(self._leases.requests) + len(self._waiting)
        try:
            for proposal in islice(self._policy.choose(self._view()), most):
                if proposal.most_cores is None or proposal.most_cores >= 1:
                    yield proposal
        except Exception as error:  # noqa: BLE001 - a policy may be anybody's, and jobs go on
            fault = f"{type(error).__name__}: {error}"
            if fault != self._fault:
                self._fault = fault
                self._say(ReportPolicy(fault))

    def _view(self) -> View:
        if self._starts is None and self._free_workers > 0:
            # Once for each job that starts or ends: estimates of so many are not made at each event.
            for job in self._waiting.values():
                self._weigh(job)
            self._starts = tuple(
                self._candidate(job, _BEGINNING, job.submitted_s) for job in self._waiting.values()
            )
        requests, occupancy = self._leases.requests, self._leases.occupancy
        return View(
            now_s=self._now,
            machine=self.machine,
            profiles=tuple(requests.profiles.values()) if occupancy.free_devices else (),
            stages=tuple(requests.stages.values()) if occupancy.free_cores else (),
            starts=(self._starts or ()) if self._free_workers > 0 else (),
            running=dict(self._leases.running),
            live=dict(self._live),
            load_s=self._load.seconds,
        )
