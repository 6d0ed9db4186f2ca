"""Estimates of the time of stages and of the rest of jobs, from what was measured so far.

A job's rate per candidate is its own, with one batch of what was expected of it mixed in, or of
everybody's, so that a job that has just begun is thought to be like the others. Nothing here
decides whether a job is right or safe: a wrong estimate changes an order.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.jobs.core.job_state import JobSpec, Remaining
from tvm_ios.support.stage_gate import JobProgress, StageKind, StageNeed

__all__ = ["Estimates"]

_NEWEST = 0.3
"""Weight of the newest measurement in the mean of a task."""
_CHANGED = 0.05
_TRIALS = 1024
"""Candidates of a job of which nobody has said anything, while no other job has either."""
_STAGE_S = 1.0
"""Seconds of a stage of a kind that nobody has measured."""


@dataclass(slots=True)
class _Past:
    """Sums over stages, those in force by estimate."""

    device_s: float = 0.0
    core_s: float = 0.0
    alone_s: float = 0.0
    trials: int = 0
    """Candidates measured under the scheduler's eyes; what a log had before does not count."""

    def add(self, need: StageNeed, work_s: float, cores: int) -> None:
        if need.kind.measures:
            self.device_s += work_s
            self.alone_s += work_s
        else:
            self.core_s += work_s
            self.alone_s += work_s / min(need.most_cores, cores)


class Estimates:
    """Stage times by task, and what is left of each job, on a machine of so many cores.

    Any call takes constant time.
    """

    def __init__(self, *, cores: int) -> None:
        self._cores = cores
        self.generation = 0
        """Grows when what is usual has changed by more than a twentieth."""
        self._usual_s = 0.0
        self._tasks: dict[tuple[StageKind, str], float] = {}
        self._kinds: dict[StageKind, float] = {}
        self._all = _Past()
        self._jobs: dict[str, _Past] = {}
        self._first_told: dict[str, int] = {}
        self._told: dict[str, JobProgress] = {}
        self._totals = (0, 0)

    def stage_s(self, need: StageNeed) -> float:
        """Seconds of one core, or of a device, that a stage will take."""
        if need.estimate_s is not None:
            return need.estimate_s
        known = self._tasks.get((need.kind, need.task))
        return self._kinds.get(need.kind, _STAGE_S) if known is None else known

    def begin(self, job: str, need: StageNeed) -> float:
        """Count a stage that was asked for by its estimate, and return that: `end` wants it."""
        guess = self.stage_s(need)
        if need.kind is not StageKind.PREPARE:
            self._jobs.setdefault(job, _Past()).add(need, guess, self._cores)
        return guess

    def end(self, job: str, need: StageNeed, guess: float, work_s: float | None) -> None:
        """Count a stage by what it took; None: it was cut short, and says nothing."""
        if need.kind is not StageKind.PREPARE:
            # begin() counted the guess: the difference puts the truth in its place.
            self._jobs[job].add(need, (work_s or 0.0) - guess, self._cores)
        if work_s is None:
            return
        if need.kind is not StageKind.PREPARE:
            self._all.add(need, work_s, self._cores)
        task, kind = (need.kind, need.task), need.kind
        self._tasks[task] = _newer(self._tasks.get(task), work_s)
        self._kinds[kind] = _newer(self._kinds.get(kind), work_s)

    def tell(self, job: str, progress: JobProgress) -> None:
        """Take over how far a job is."""
        first = self._first_told.setdefault(job, 0)
        before = self._told.get(job)
        if before is None and progress.trials and job not in self._jobs:
            # What a log had before this scheduler saw the job was free of charge.
            first = self._first_told[job] = progress.trials
        past = self._jobs.setdefault(job, _Past())
        counted = max(progress.trials - first, past.trials)
        self._all.trials += counted - past.trials
        past.trials = counted
        if progress.total is not None and (before is None or before.total is None):
            self._totals = (self._totals[0] + progress.total, self._totals[1] + 1)
            if self._totals[1] == 1:
                self.generation += 1
        self._told[job] = progress
        usual = self._all.alone_s / max(self._all.trials, 1)
        if abs(usual - self._usual_s) > _CHANGED * self._usual_s:
            self._usual_s = usual
            self.generation += 1

    def forget(self, job: str) -> None:
        """Drop what is known of a job that has ended; what it taught about others stays."""
        self._jobs.pop(job, None)
        self._first_told.pop(job, None)
        self._told.pop(job, None)

    def remaining(self, spec: JobSpec) -> Remaining:
        """Estimate of the rest of a job; stages in force count as not begun."""
        told = self._told.get(spec.name)
        total = told.total if told is not None and told.total is not None else spec.trials
        if total is None:
            trials, jobs = self._totals
            total = trials // jobs if jobs else _TRIALS
        left = max(total - (told.trials if told is not None else 0), 0)
        own = self._jobs.get(spec.name, _Past())
        usual = self._usual(spec, total)

        def rate(mine: float, of_others: float) -> float:
            return left * (mine + of_others * spec.batch) / (own.trials + spec.batch)

        return Remaining(
            device_s=rate(own.device_s, usual.device_s),
            core_s=rate(own.core_s, usual.core_s),
            alone_s=rate(own.alone_s, usual.alone_s),
        )

    def _usual(self, spec: JobSpec, total: int) -> Remaining:
        """Estimate for one candidate of a job that has measured none."""
        if spec.expected is not None:
            return _a_trial(spec.expected, max(total, 1))
        if not self._all.trials:
            one = _STAGE_S / spec.batch
            return Remaining(device_s=one, core_s=3 * one, alone_s=4 * one)
        return _a_trial(self._all, self._all.trials)


def _a_trial(whole: Remaining | _Past, trials: int) -> Remaining:
    return Remaining(
        device_s=whole.device_s / trials,
        core_s=whole.core_s / trials,
        alone_s=whole.alone_s / trials,
    )


def _newer(mean: float | None, measured: float) -> float:
    return measured if mean is None else mean + _NEWEST * (measured - mean)
