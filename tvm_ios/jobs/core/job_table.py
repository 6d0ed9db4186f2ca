"""Jobs of a scheduler: which wait, which live, how much is left of each and of all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tvm_ios.errors import JobError, UnknownJobError
from tvm_ios.jobs.core.commands import Command, JobChanged, StartWorker
from tvm_ios.jobs.core.estimates import Estimates
from tvm_ios.jobs.core.job_state import Job, JobSpec, JobState, Remaining
from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.core.view import Candidate
from tvm_ios.support.stage_gate import JobProgress, StageKind, StageNeed

__all__ = ["JobTable"]

_BEGINNING = StageNeed(kind=StageKind.PREPARE)


class JobTable:
    """Jobs in the order of submission. Each call takes constant time, but `starts` now and then."""

    def __init__(self, machine: Machine, max_active: int, estimates: Estimates) -> None:
        self.live: Counter[str] = Counter()
        """Jobs with a worker by the device they must have; under "" those that take any."""
        self.waiting: dict[str, Job] = {}
        """Jobs without a worker, in the order of submission."""
        self.estimates = estimates
        self.load = _Load(machine)
        self._devices = [device.name for device in machine.devices]
        self._max_active = max_active
        self._jobs: dict[str, Job] = {}
        self._starts: dict[str, Candidate] = {}
        self._generation = estimates.generation

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def __getitem__(self, name: str) -> Job:
        """Look a job up; an UnknownJobError says that there is none of this name."""
        job = self._jobs.get(name)
        if job is None:
            raise UnknownJobError(f"there is no job {name!r}; submit it first")
        return job

    @property
    def free_workers(self) -> int:
        """Workers that may be started now."""
        return self._max_active - self.live.total()

    def require_device(self, name: str, who: str) -> None:
        """Refuse a device that does not exist."""
        if name not in self._devices:
            raise JobError(f"{who}: there is no device {name!r}; there are: {self._devices}")

    def submit(self, spec: JobSpec, now: float) -> list[Command]:
        """Take a job in; its name must be new and its device known."""
        if not spec.name or spec.name in self._jobs:
            raise JobError(f"job {spec.name!r}: give each job a name of its own")
        if spec.device:
            self.require_device(spec.device, f"job {spec.name!r}")
        job = Job(spec=spec, number=len(self._jobs), submitted_s=now)
        self._jobs[spec.name] = self.waiting[spec.name] = job
        self.weigh(job)
        self._starts[spec.name] = self.candidate(job, _BEGINNING, now)
        return [JobChanged(spec.name, JobState.WAITING)]

    def start(self, job: Job, now: float) -> list[Command]:
        """Start a job's worker, or start it again."""
        name, commands = job.spec.name, list[Command]()
        if job.state is JobState.WAITING:
            del self.waiting[name], self._starts[name]
            self.live[job.spec.device] += 1
            job.state, job.started_s = JobState.RUNNING, now
            commands.append(JobChanged(name, JobState.RUNNING))
        job.attempt += 1
        job.last_need = None
        return [*commands, StartWorker(name, job.attempt)]

    def finish(self, job: Job, state: JobState, reason: str, now: float) -> list[Command]:
        """End a job that has no worker, or none any more."""
        name, device = job.spec.name, job.spec.device
        if job.state is JobState.RUNNING:
            self.live[device] -= 1
            if not self.live[device]:
                del self.live[device]
        self.waiting.pop(name, None)
        self._starts.pop(name, None)
        job.state, job.reason, job.ended_s = state, reason, now
        self.estimates.forget(name)
        self.load.set(name, device, None)
        return [JobChanged(name, state, reason)]

    def tell(self, job: Job, progress: JobProgress) -> None:
        """Take over how far a job is, also where it has ended."""
        job.progress = progress
        if not job.state.ended:
            self.estimates.tell(job.spec.name, progress)
            self.weigh(job)

    def begin_stage(self, job: Job, need: StageNeed) -> None:
        """Count a stage that a job asks for by its estimate."""
        job.last_need = need
        job.guess_s = self.estimates.begin(job.spec.name, need)
        self.weigh(job)

    def end_stage(self, job: Job, work_s: float | None) -> None:
        """Count a job's last stage by what it took; None: it was cut short."""
        if job.last_need is not None:
            self.estimates.end(job.spec.name, job.last_need, job.guess_s, work_s)
            self.weigh(job)

    def weigh(self, job: Job) -> None:
        """Renew what is left of a job in the sum of all."""
        self.load.set(job.spec.name, job.spec.device, self.estimates.remaining(job.spec))

    def candidate(self, job: Job, need: StageNeed, asked_s: float) -> Candidate:
        """A job as policies see it."""
        return Candidate(
            job=job.spec.name,
            number=job.number,
            wish=job.spec.wish,
            need=need,
            asked_s=asked_s,
            left=self.estimates.remaining(job.spec),
        )

    def starts(self) -> tuple[Candidate, ...]:
        """Jobs that wait for a worker, weighed anew when what is usual has changed."""
        if self._generation != self.estimates.generation:
            self._generation = self.estimates.generation
            for name, job in self.waiting.items():
                self.weigh(job)
                self._starts[name] = self.candidate(job, _BEGINNING, job.submitted_s)
        return tuple(self._starts.values())


class _Load:
    """Sums over jobs that have not ended, kept while what is left of each changes."""

    def __init__(self, machine: Machine) -> None:
        escorted = sum(device.escorted for device in machine.devices)
        self._devices = max(len(machine.devices), 1)
        self._cores = len(machine.cores)
        self._escorted = escorted / self._devices
        self._left: dict[str, tuple[str, Remaining]] = {}
        self._device_s = self._core_s = 0.0
        self._pinned: defaultdict[str, float] = defaultdict(float)

    def set(self, job: str, pin: str, left: Remaining | None) -> None:
        """Count what is left of a job, that needs one device or any; None: it has ended."""
        old_pin, old = self._left.pop(job, (pin, Remaining()))
        self._add(old_pin, old, -1.0)
        if left is not None:
            self._left[job] = pin, left
            self._add(pin, left, 1.0)
        elif not self._left:
            # Rounding does not pile up.
            self._device_s = self._core_s = 0.0
            self._pinned.clear()

    def _add(self, pin: str, left: Remaining, sign: float) -> None:
        self._device_s += sign * left.device_s
        self._core_s += sign * left.core_s
        if pin:
            self._pinned[pin] += sign * left.device_s

    @property
    def seconds(self) -> float:
        """Seconds that the bottleneck needs, if it never idles: devices, one device, or cores."""
        return max(
            self._device_s / self._devices,
            (self._core_s + self._escorted * self._device_s) / self._cores,
            *self._pinned.values(),
            0.0,
        )
