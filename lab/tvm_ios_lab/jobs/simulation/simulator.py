"""An executor without workers: commands are obeyed at once, and time jumps to what happens next.

It believes nothing of what the scheduler thinks of rates: who shares a core is found out again from
the commands alone.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tvm_ios.jobs.core.commands import (
    Command,
    GrantLease,
    JobChanged,
    RePinLease,
    RevokeLease,
    StartWorker,
    StopWorker,
)
from tvm_ios.jobs.core.estimates import Estimates
from tvm_ios.jobs.core.events import (
    Event,
    JobEnded,
    JobSubmitted,
    ProgressTold,
    RePinned,
    StageReleased,
    StageRequested,
    Tick,
    WorkerDied,
)
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.core.scheduler import Scheduler
from tvm_ios.jobs.core.trace import Trace
from tvm_ios.jobs.core.view import Policy
from tvm_ios.support.stage_gate import JobProgress
from tvm_ios_lab.jobs.simulation.mock_job import MockJob, MockStage

__all__ = ["SimulatedRun", "simulate"]

_REPIN_S = 21e-6
"""Moving a process to other cores, as measured on a 2-core virtual machine."""


@dataclass(slots=True)
class SimulatedRun:
    """Outcome of a simulation."""

    trace: Trace = field(default_factory=Trace)
    states: dict[str, dict[JobState, float]] = field(default_factory=dict)
    """Time at which each job came into each state."""
    journal: list[tuple[float, Event]] = field(default_factory=list)
    """Events and their times: a new scheduler says the same to them."""
    makespan_s: float = 0.0
    """Seconds until the last job ended."""

    def busy(self, machine: Machine) -> float:
        """The part of the time that devices were profiled on, their mean."""
        busy_s = sum(
            span.end_s(self.makespan_s) - span.granted_s for span in self.trace.spans if span.device
        )
        return busy_s / len(machine.devices) / self.makespan_s

    def mean_completion_s(self) -> float:
        """Seconds from submission to end, the mean of all jobs."""
        completions = [
            max(times.values()) - times[JobState.WAITING]
            for times in self.states.values()
            if any(state.ended for state in times)
        ]
        return sum(completions) / len(completions)

    def as_text(self) -> str:
        """A line a stage: when it was asked for, granted and over, for whom, and where."""
        lines = []
        for span in sorted(self.trace.spans, key=lambda span: (span.granted_s, span.epoch)):
            end = "..." if span.ended_s is None else f"{span.ended_s:.3f}"
            moves = " -> ".join(",".join(map(str, cores)) or "-" for _, cores in span.places)
            lines.append(
                f"{span.asked_s:.3f} {span.granted_s:.3f} {end} {span.job} "
                f"{span.need.kind.value} {span.need.task or '-'} on {moves}"
                f"{f' and {span.device}' if span.device else ''}"
                f"{'' if span.finished else ', cut short'}"
            )
        return "\n".join(lines)


@dataclass(slots=True)
class _Computing:
    epoch: int
    stage: MockStage
    left_s: float
    cores: tuple[int, ...]
    since_s: float
    rate: float = 1.0
    version: int = 0
    """Counts changes of its rate: an end that was foreseen before the last one does not come."""


class _Simulator:
    def __init__(self, scheduler: Scheduler, jobs: Iterable[MockJob]) -> None:
        self.run = SimulatedRun()
        self._scheduler = scheduler
        self._jobs = {job.name: job for job in jobs}
        self._place: Counter[str] = Counter()
        self._deaths = {job.name: dict(job.deaths) for job in self._jobs.values()}
        self._trials: Counter[str] = Counter()
        self._computing: dict[str, _Computing] = {}
        self._users: defaultdict[int, dict[str, None]] = defaultdict(dict)
        self._agenda: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = count()
        self._obey: dict[type, Callable[[Any, float], None]] = {
            StartWorker: self._start,
            StopWorker: self._stop,
            GrantLease: self._grant,
            RePinLease: self._repin,
            RevokeLease: self._revoke,
        }

    def plan(self, time: float, event: Event) -> None:
        """Let something happen."""
        self._later(time, lambda now: self._say(event, now))

    def go(self) -> SimulatedRun:
        while self._agenda or not self._scheduler.all_ended:
            wake = self._scheduler.wake_at
            if wake is not None and (not self._agenda or wake < self._agenda[0][0]):
                self._say(Tick(), wake)
            elif self._agenda:
                time, _, happen = heapq.heappop(self._agenda)
                happen(time)
            else:
                break
        return self.run

    def _later(self, time: float, happen: Callable[[float], None]) -> None:
        heapq.heappush(self._agenda, (time, next(self._order), happen))

    def _say(self, event: Event, now: float) -> None:
        if isinstance(event, WorkerDied):
            self._drop(event.job, now)
        commands = self._scheduler.handle(event, now)
        self.run.journal.append((now, event))
        self.run.trace.add(event, commands, now)
        if isinstance(event, JobEnded):
            self.run.makespan_s = now
        for command in commands:
            if isinstance(command, JobChanged):
                self.run.states.setdefault(command.job, {})[command.state] = now
            self._follow(command, now)

    def _follow(self, command: Command, now: float) -> None:
        obey = self._obey.get(type(command))
        if obey is not None:
            obey(command, now)

    # ---- Commands ----

    def _start(self, command: StartWorker, now: float) -> None:
        self._later(now, lambda time: self._ask(command.job, time))

    def _stop(self, command: StopWorker, now: float) -> None:
        self.plan(now, WorkerDied(command.job))

    def _grant(self, command: GrantLease, now: float) -> None:
        lease = command.lease
        stage = self._jobs[lease.job].stages[self._place[lease.job]]
        computing = _Computing(lease.epoch, stage, stage.work_s, lease.cores, now)
        self._computing[lease.job] = computing
        deaths = self._deaths[lease.job]
        if deaths.get(self._place[lease.job], 0) > 0:
            deaths[self._place[lease.job]] -= 1
            self._later(
                now + stage.seconds(len(lease.cores)) / 2,
                lambda time: self._die(lease.job, lease.epoch, time),
            )
        self._join(lease.job, lease.cores, now)

    def _repin(self, command: RePinLease, now: float) -> None:
        computing = self._computing.get(command.job)
        if computing is not None and computing.epoch == command.epoch:
            self._leave(command.job, now)
            computing.cores = command.cores
            self._join(command.job, command.cores, now)
        answer = RePinned(job=command.job, epoch=command.epoch, serial=command.serial)
        self.plan(now + _REPIN_S, answer)

    def _revoke(self, command: RevokeLease, now: float) -> None:
        self._drop(command.job, now)
        self.plan(now, StageReleased(job=command.job, epoch=command.epoch, finished=False))

    # ---- Work ----

    def _ask(self, job: str, now: float) -> None:
        stages = self._jobs[job].stages
        if self._place[job] == len(stages):
            self._say(JobEnded(job), now)
        else:
            self._say(StageRequested(job, stages[self._place[job]].need), now)

    def _die(self, job: str, epoch: int, now: float) -> None:
        computing = self._computing.get(job)
        if computing is not None and computing.epoch == epoch:
            self._say(WorkerDied(job), now)

    def _end(self, job: str, epoch: int, version: int, now: float) -> None:
        computing = self._computing.get(job)
        if computing is None or (computing.epoch, computing.version) != (epoch, version):
            return
        self._drop(job, now)
        self._place[job] += 1
        if computing.stage.trials:
            self._trials[job] += computing.stage.trials
            told = JobProgress(trials=self._trials[job], total=self._jobs[job].trials())
            self._say(ProgressTold(job, told), now)
        self._say(StageReleased(job=job, epoch=epoch), now)
        self._ask(job, now)

    def _drop(self, job: str, now: float) -> None:
        if job in self._computing:
            self._leave(job, now)
            del self._computing[job]

    def _join(self, job: str, cores: Sequence[int], now: float) -> None:
        for core in cores:
            self._users[core][job] = None
        self._again([job, *(user for core in cores for user in self._users[core])], now)

    def _leave(self, job: str, now: float) -> None:
        cores = self._computing[job].cores
        for core in cores:
            del self._users[core][job]
        self._again([job, *(user for core in cores for user in self._users[core])], now)

    def _again(self, jobs: Iterable[str], now: float) -> None:
        """Foresee the ends of stages whose share of cores has changed."""
        for job in dict.fromkeys(jobs):
            computing = self._computing[job]
            computing.left_s -= (now - computing.since_s) * computing.rate
            computing.since_s = now
            need = computing.stage.need
            if not need.kind.measures:
                shares = sorted(1 / max(len(self._users[c]), 1) for c in computing.cores)
                computing.rate = sum(shares[-need.most_cores :])
            computing.version += 1
            end = now + max(computing.left_s, 0.0) / computing.rate
            self._foresee(job, computing, end)

    def _foresee(self, job: str, computing: _Computing, end: float) -> None:
        epoch, version = computing.epoch, computing.version
        self._later(end, lambda now: self._end(job, epoch, version, now))


def simulate(
    jobs: Sequence[MockJob],
    machine: Machine,
    policy: Policy,
    limits: Limits,
    *,
    estimates: Estimates | None = None,
    mishaps: Iterable[tuple[float, Event]] = (),
) -> SimulatedRun:
    """Run jobs that are all submitted at the start.

    Parameters
    ----------
    jobs
        Jobs to run, in the order of submission.
    machine, policy, limits, estimates
        Arguments that the scheduler is made with.
    mishaps
        Other events: devices lost and back, workers that die, jobs that are cancelled.
    """
    simulator = _Simulator(Scheduler(machine, policy, limits, estimates), jobs)
    for job in jobs:
        simulator.plan(0.0, JobSubmitted(job.spec))
    for time, event in mishaps:
        simulator.plan(time, event)
    return simulator.go()
