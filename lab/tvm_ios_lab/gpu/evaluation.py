"""Runs steps until all are settled or the budget is spent; the clock is looked at in between.

At most one step has the GPU. CPU steps, compilations above all, run beside it; what is timed for
the results has the machine to itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from tvm_ios_lab.gpu.agenda import Place, Step, Work
from tvm_ios_lab.gpu.jobs import Job
from tvm_ios_lab.gpu.ledger import Ledger, Outcome
from tvm_ios_lab.harness.ledger import Status

__all__ = ["Forecast", "run_steps"]

_LOOK_S = 0.2
_DRAIN_S = 40.0
"""Seconds within which those that run must end for a waiting step to keep others from beginning."""
_WHOLE = 0.8
"""Share of the budget with which a step is begun whatever it is expected to take, once."""


class Forecast:
    """Forecast of how long steps take, by the last ones like them.

    Parameters
    ----------
    ledger
        Outcomes of steps in this call and earlier ones.
    steps
        Steps of the evaluation.
    """

    def __init__(self, ledger: Ledger, steps: Sequence[Step]) -> None:
        self._ledger = ledger
        self._steps = steps

    def expected_s(self, step: Step) -> float:
        """Longest seconds of steps like it, of its network if any; no less than it had in vain."""
        if step.work is Work.TUNE:
            return step.expected_s  # it ends itself in time
        like = [other for other in self._steps if other.work is step.work]
        same = [other for other in like if other.case.network == step.case.network]
        expected_s = self._longest_s(same) or self._longest_s(like) or step.expected_s
        before = self._ledger.outcome(step.name)
        if before is not None and before.status is Status.CUT:
            expected_s = max(expected_s, before.seconds)
        return expected_s

    def _longest_s(self, steps: Sequence[Step]) -> float:
        outcomes = [self._ledger.outcome(step.name) for step in steps]
        done = [each.seconds for each in outcomes if each and each.status is Status.DONE]
        return max(done, default=0.0)


class _Run:
    """The state of one call."""

    def __init__(
        self, steps: Sequence[Step], folder: Path, budget_s: float, say: Callable[[str], None]
    ) -> None:
        self.steps = steps
        self.folder = folder
        self.budget_s = budget_s
        self.say = say
        self.ledger = Ledger(folder)
        self.end = time.monotonic() + budget_s
        self.cores = len(os.sched_getaffinity(0))
        self.jobs: dict[Step, Job] = {}
        self._forecast = Forecast(self.ledger, steps)
        self._begun: set[str] = set()
        self._too_long: set[str] = set()

    @property
    def left_s(self) -> float:
        return self.end - time.monotonic()

    def look(self) -> bool:
        """Take in what has ended and begin what can begin; False when there is nothing to do."""
        for step, job in list(self.jobs.items()):
            outcome = job.ended()
            if outcome is not None:
                del self.jobs[step]
                self.say(_line(outcome))
        if self.left_s <= 0:
            self.stop()
            return False
        if any(step.place is Place.ALONE for step in self.jobs):
            return True  # even looking at files would disturb it
        lost = self.ledger.lost(self.steps)
        for step in self.steps:
            if not self._is_ready(step, lost):
                continue
            if self._has_room(step):
                self._begin(step)
            elif step.place is Place.ALONE and self._remaining_s() <= _DRAIN_S:
                break
        return bool(self.jobs)

    def stop(self) -> None:
        """End what runs; the next call goes on."""
        for job in self.jobs.values():
            self.say(_line(job.cut()))
        self.jobs.clear()

    def kill(self) -> None:
        for job in self.jobs.values():
            job.kill()

    def _is_ready(self, step: Step, lost: Collection[str]) -> bool:
        if step.name in self._begun or self.ledger.is_settled(step.name):
            return False
        running = {other.name for other in self.jobs}
        if running & {*step.needs, *step.after} or not all(map(self.ledger.is_done, step.needs)):
            return False
        over = all(name in lost or self.ledger.is_settled(name) for name in step.after)
        return over and self._fits(step)

    def _remaining_s(self) -> float:
        """Until everything that runs has ended, as far as can be known."""
        return max(
            (self._forecast.expected_s(step) - job.seconds for step, job in self.jobs.items()),
            default=0.0,
        )

    def _has_room(self, step: Step) -> bool:
        running = [other.place for other in self.jobs]
        if Place.ALONE in running:
            return False
        if step.place is Place.ALONE:
            return not running
        if step.place is Place.GPU:
            return Place.GPU not in running
        # The other half is for what has the GPU: its kernels are prepared and launched by a core.
        return running.count(Place.CPU) < max(1, self.cores // 2)

    def _fits(self, step: Step) -> bool:
        expected_s = self._forecast.expected_s(step)
        whole_s = _WHOLE * self.budget_s
        fits = expected_s <= self.left_s
        if not fits and (step.resumes or expected_s < whole_s or not self._was_cut(step)):
            fits = self.left_s >= whole_s
        if not fits and step.name not in self._too_long:
            self._too_long.add(step.name)
            self.say(f"{step.name}: left for the next call, {expected_s:.0f} s are expected")
        return fits

    def _was_cut(self, step: Step) -> bool:
        before = self.ledger.outcome(step.name)
        return before is not None and before.status is Status.CUT

    def _begin(self, step: Step) -> None:
        self._begun.add(step.name)
        threads = max(1, self.cores // (8 if step.place is Place.CPU else 2))
        self.say(f"{step.name}: begins, {self.left_s:.0f} s are left")
        self.jobs[step] = Job(step.name, self.folder, left_s=self.left_s, threads=threads)


def run_steps(
    steps: Sequence[Step], folder: Path, *, budget_s: float, say: Callable[[str], None]
) -> None:
    """Do what is not settled yet, as far as the budget goes.

    Parameters
    ----------
    steps
        The most worthwhile first.
    folder
        Folder of the evaluation.
    budget_s
        Seconds until everything that still runs is ended.
    say
        Function that is told when a step begins and ends.
    """
    run = _Run(steps, folder, budget_s, say)
    try:
        while run.look():
            time.sleep(_LOOK_S)
    finally:
        run.kill()


def _line(outcome: Outcome) -> str:
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"{outcome.step}: {outcome.status.value} after {outcome.seconds:.1f} s{reason}"
