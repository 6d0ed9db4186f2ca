"""The state machine that runs many tuning jobs: events go in, commands come out.

It reads no clock, draws no random number and touches nothing outside: the same events at the same
times give the same commands, so a run can be replayed. A policy says who goes first; whether there
is room is decided in `leases`, so a faulty policy makes jobs slow and nothing unsafe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from tvm_ios.errors import JobError
from tvm_ios.jobs.core import events
from tvm_ios.jobs.core.commands import Command, ReportPolicy, RevokeLease, StopWorker
from tvm_ios.jobs.core.estimates import Estimates
from tvm_ios.jobs.core.job_state import Job, JobState
from tvm_ios.jobs.core.job_table import JobTable
from tvm_ios.jobs.core.leases import Leases
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.occupancy import Holding
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.core.status import JobStatus, job_status
from tvm_ios.jobs.core.view import Policy, Proposal, View

__all__ = ["Scheduler"]

_DEATHS = 2
"""Workers that the same stage may kill."""


class Scheduler:
    """Jobs, their stages, and the machine they share.

    An event takes constant time, but for the policy, which looks at the jobs that wait. Epochs of
    leases begin after ``epoch``.
    """

    def __init__(
        self,
        machine: Machine,
        policy: Policy,
        limits: Limits | None = None,
        estimates: Estimates | None = None,
        epoch: int = 0,
    ) -> None:
        self.machine = machine
        self._policy = policy
        self._limits = limits or Limits()
        estimates = estimates or Estimates(cores=len(machine.cores))
        self._jobs = JobTable(machine, self._limits.max_active, estimates)
        self._leases = Leases(machine, epoch)
        self._now = 0.0
        self._fault = ""
        self._commands: list[Command] = []
        self._handlers: dict[type, Callable[[Any], None]] = {
            events.JobSubmitted: self._submitted,
            events.JobCancelled: self._cancelled,
            events.StageRequested: self._requested,
            events.StageReleased: self._released,
            events.ProgressTold: self._told,
            events.JobEnded: self._ended,
            events.WorkerDied: self._died,
            events.DeviceLost: self._lost,
            events.DeviceBack: self._back,
            events.RePinned: self._repinned,
            events.NodeJoined: self._refuse_node,
            events.NodeLost: self._refuse_node,
            events.Tick: self._ticked,
        }

    # ---- From outside ----

    def handle(self, event: events.Event, now: float) -> tuple[Command, ...]:
        """Take note of an event, and say what to do ``now``, in seconds since any fixed moment.

        What comes too late, from a job that has ended or of a lease that is no more, changes
        nothing.
        """
        if now < self._now:
            raise JobError(f"{event} at {now} s comes after an event at {self._now} s")
        self._commands = []
        before, self._now = self._now, now
        try:
            self._handlers[type(event)](event)
        except JobError:
            # A refused event changes nothing, not even the time.
            self._now = before
            raise
        self._decide()
        return tuple(self._commands)

    @property
    def wake_at(self) -> float | None:
        """Time at which a request gets too old: say `Tick` then, if nothing else has happened."""
        times = []
        oldest = self._leases.requests.oldest_s()
        if oldest is not None:
            times.append(oldest + self._limits.max_wait_s)
        if self._jobs.waiting and self._jobs.free_workers > 0:
            first = next(iter(self._jobs.waiting.values()))
            times.append(first.submitted_s + self._limits.max_start_wait_s)
        return max(min(times), self._now) if times else None

    @property
    def all_ended(self) -> bool:
        """Whether no job waits or runs."""
        return not self._jobs.waiting and not self._jobs.live

    @property
    def free_workers(self) -> int:
        """Jobs that could be submitted now and have a worker at once, if the policy agrees."""
        return self._jobs.free_workers - len(self._jobs.waiting)

    def snapshot(self, now: float) -> tuple[JobStatus, ...]:
        """Statuses of all jobs, in the order of submission."""
        return tuple(
            job_status(
                job,
                self._leases.of(job.spec.name),
                self._leases.requests.get(job.spec.name),
                self._leases.occupancy,
                self._jobs.estimates.remaining(job.spec),
                self._jobs.load.seconds,
                now,
            )
            for job in self._jobs
        )

    # ---- Events ----

    def _submitted(self, event: events.JobSubmitted) -> None:
        self._commands += self._jobs.submit(event.spec, self._now)

    def _cancelled(self, event: events.JobCancelled) -> None:
        job = self._jobs[event.job]
        if job.state is JobState.WAITING:
            self._finish(job, JobState.CANCELLED)
        elif job.state is JobState.RUNNING:
            self._stop(job, JobState.CANCELLED)

    def _requested(self, event: events.StageRequested) -> None:
        job, need = self._jobs[event.job], event.need
        if job.state is not JobState.RUNNING or job.verdict is not None:
            return
        if self._leases.of(event.job) or self._leases.requests.get(event.job):
            self._stop(job, JobState.FAILED, f"asked for stage {need.kind.value} inside another")
            return
        obstacle = self._leases.occupancy.never_fits(need, job.spec.wish)
        if obstacle:
            self._stop(job, JobState.FAILED, f"stage {need.kind.value} {obstacle}")
            return
        self._jobs.begin_stage(job, need)
        self._leases.requests.add(self._jobs.candidate(job, need, self._now))

    def _released(self, event: events.StageReleased) -> None:
        job, holding = self._jobs[event.job], self._leases.of(event.job)
        if holding is None or holding.lease.epoch != event.epoch or holding.granted_s is None:
            return
        self._leases.give_back(event.job, self._now)
        need, elapsed = holding.lease.need, self._now - holding.granted_s
        if not event.finished:
            if job.verdict is None:
                self._ask_again(job, holding)
            return
        work = holding.work_s
        # The worker's own clock leaves out the time that grant and release took to arrive.
        if event.seconds is not None and elapsed > 0:
            work *= event.seconds / elapsed
        self._jobs.end_stage(job, work)
        job.deaths.pop((need.kind, need.task), None)
        job.deaths.pop((None, ""), None)

    def _told(self, event: events.ProgressTold) -> None:
        self._jobs.tell(self._jobs[event.job], event.progress)

    def _ended(self, event: events.JobEnded) -> None:
        job = self._jobs[event.job]
        if job.state is JobState.RUNNING:
            self._let_go(job)
            state = JobState.FAILED if event.reason else JobState.DONE
            self._finish(job, job.verdict or state, job.reason or event.reason)

    def _died(self, event: events.WorkerDied) -> None:
        job = self._jobs[event.job]
        if job.state is not JobState.RUNNING:
            return
        holding = self._let_go(job)
        if job.verdict is not None:
            self._finish(job, job.verdict, job.reason)
            return
        # A worker whose device was lost is not to blame for anything.
        reason = "" if holding and holding.revoked else self._blame(job, holding)
        if reason:
            self._finish(job, JobState.FAILED, reason)
        else:
            self._commands += self._jobs.start(job, self._now)

    def _lost(self, event: events.DeviceLost) -> None:
        self._jobs.require_device(event.device, "a device was lost")
        if self._leases.occupancy.is_lost(event.device):
            return
        self._leases.occupancy.lose(event.device)
        holding = self._leases.occupancy.holder(event.device)
        if holding is None:
            return
        job = self._jobs[holding.lease.job]
        if holding.granted_s is None:
            # The worker has not heard of this lease, so there is nothing to revoke.
            self._leases.give_back(holding.lease.job, self._now)
            self._ask_again(job, holding)
            return
        holding.revoked = True
        if job.verdict is None:
            self._commands.append(RevokeLease(holding.lease.job, holding.lease.epoch))

    def _back(self, event: events.DeviceBack) -> None:
        self._jobs.require_device(event.device, "a device is back")
        if self._leases.occupancy.is_lost(event.device):
            self._leases.occupancy.regain(event.device)

    def _repinned(self, event: events.RePinned) -> None:
        self._leases.acknowledge(self._jobs[event.job].spec.name, event.epoch, event.serial)

    def _ticked(self, _event: events.Tick) -> None:
        """Only time has passed."""

    def _refuse_node(self, event: events.NodeJoined | events.NodeLost) -> None:
        raise JobError(f"{event}: a scheduler has one machine; nodes are those of a `Cluster`")

    # ---- What follows for a job ----

    def _ask_again(self, job: Job, holding: Holding) -> None:
        """Let a batch that has lost its device wait for another one, as old as it is."""
        asked = self._jobs.candidate(job, holding.lease.need, holding.asked_s)
        self._leases.requests.add(asked)

    def _stop(self, job: Job, verdict: JobState, reason: str = "") -> None:
        """Have a worker stopped; what it computes on stays its own until it is gone."""
        if job.verdict is not None:
            return
        job.verdict, job.reason = verdict, reason
        holding = self._leases.of(job.spec.name)
        if holding is None or holding.granted_s is None:
            self._let_go(job)
        self._commands.append(StopWorker(job.spec.name))

    def _finish(self, job: Job, state: JobState, reason: str = "") -> None:
        self._commands += self._jobs.finish(job, state, reason, self._now)

    def _let_go(self, job: Job) -> Holding | None:
        """Take from a job what it has or waits for; return what it had."""
        name = job.spec.name
        asked, holding = self._leases.requests.remove(name), self._leases.of(name)
        if holding is not None:
            self._leases.give_back(name, self._now)
        if asked is not None or holding is not None:
            self._jobs.end_stage(job, None)
        return holding

    def _blame(self, job: Job, holding: Holding | None) -> str:
        """Count a death; return why the job fails, if it does."""
        granted = holding is not None and holding.granted_s is not None
        need = holding.lease.need if holding is not None and granted else None
        key = (need.kind if need else None, need.task if need else "")
        job.deaths[key] += 1
        if job.deaths[key] < _DEATHS:
            return ""
        where = f"in stage {need.kind.value} {need.task}" if need else "between stages"
        return f"its worker died {_DEATHS} times {where}".rstrip()

    # ---- Decisions ----

    def _decide(self) -> None:
        self._commands += self._leases.settle(self._now, self._limits.max_wait_s)
        self._start_overdue()
        for proposal in self._proposals():
            waiting = self._jobs.waiting.get(proposal.job)
            asked = self._leases.requests.get(proposal.job)
            if waiting is not None and self._jobs.free_workers > 0:
                self._commands += self._jobs.start(waiting, self._now)
            elif asked is not None:
                self._commands += self._leases.grant(asked, self._now, proposal.most_cores)
            if not self._has_room():
                break
        if not self._jobs.live and self._jobs.waiting:
            # Whatever the policy thinks of them: somebody must go on.
            first = next(iter(self._jobs.waiting.values()))
            self._commands += self._jobs.start(first, self._now)
        self._commands += self._leases.spread(self._now)

    def _has_room(self) -> bool:
        """Whether anything is free that somebody waits for."""
        if self._jobs.waiting and self._jobs.free_workers > 0:
            return True
        return self._leases.has_room()

    def _start_overdue(self) -> None:
        while self._jobs.waiting and self._jobs.free_workers > 0:
            first = next(iter(self._jobs.waiting.values()))
            if self._now < first.submitted_s + self._limits.max_start_wait_s:
                return
            self._commands += self._jobs.start(first, self._now)

    def _proposals(self) -> Iterator[Proposal]:
        """Proposals of the policy, as far as they make sense."""
        if not self._has_room():
            return
        # A policy's generator may have no end.
        most = len(self._leases.requests) + len(self._jobs.waiting)
        try:
            for proposal in islice(self._policy.choose(self._view()), most):
                known = isinstance(proposal.job, str)
                if known and (proposal.most_cores is None or proposal.most_cores >= 1):
                    yield proposal
        except Exception as error:  # noqa: BLE001 - a policy may be anybody's, and jobs go on
            fault = f"{type(error).__name__}: {error}"
            # A broken policy fails at every event, and one report is enough.
            if fault != self._fault:
                self._fault = fault
                self._commands.append(ReportPolicy(fault))

    def _view(self) -> View:
        requests, occupancy = self._leases.requests, self._leases.occupancy
        return View(
            now_s=self._now,
            machine=self.machine,
            profiles=tuple(requests.profiles.values()) if occupancy.free_devices else (),
            stages=tuple(requests.stages.values()) if occupancy.free_cores else (),
            starts=self._jobs.starts() if self._jobs.free_workers > 0 else (),
            running=dict(self._leases.running),
            live=dict(self._jobs.live),
            load_s=self._jobs.load.seconds,
        )
