"""Jobs whose stages and times are written down beforehand.

The simulator runs them in no time; in a worker, at a real gate, they show what an executor does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tvm_ios.jobs.core.job_state import JobSpec, Remaining
from tvm_ios.support.stage_gate import JobProgress, StageGate, StageKind, StageNeed

__all__ = ["MockJob", "MockStage", "batched_job", "random_jobs"]

_TRIALS = 64
_BUILDERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class MockStage:
    """A stage that does nothing for a while."""

    need: StageNeed
    work_s: float
    """Seconds on one core; of a profile, seconds on its device."""
    trials: int = 0
    """Candidates that it measures."""

    def seconds(self, cores: int) -> float:
        """Seconds on as many cores, up to those it can make use of."""
        if self.need.kind.measures:
            return self.work_s
        return self.work_s / max(min(cores, self.need.most_cores), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MockJob:
    """Stages one after the other."""

    name: str
    stages: tuple[MockStage, ...]
    device: str = ""
    """The only device it may use; empty: any."""
    known: bool = True
    """Whether it says at its submission how long it takes."""
    deaths: Mapping[int, int] = field(default_factory=dict)
    """Number of times that its worker dies halfway through a stage, by the stage's place."""

    @property
    def spec(self) -> JobSpec:
        """Job as it is submitted."""
        batch = max((stage.trials for stage in self.stages), default=0)
        expected = Remaining(
            device_s=self.device_s, core_s=self.core_s, alone_s=self.alone_s(_BUILDERS)
        )
        return JobSpec(
            name=self.name,
            device=self.device,
            trials=self.trials(),
            batch=max(batch, 1),
            expected=expected if self.known else None,
        )

    def trials(self, stages: int | None = None) -> int:
        """Candidates measured after its first stages; None: after all."""
        return sum(stage.trials for stage in self.stages[:stages])

    @property
    def device_s(self) -> float:
        """Seconds of a device in all."""
        return sum(stage.work_s for stage in self.stages if stage.need.kind.measures)

    @property
    def core_s(self) -> float:
        """Seconds of cores in all, while it profiles not counted."""
        return sum(stage.work_s for stage in self.stages if not stage.need.kind.measures)

    def alone_s(self, cores: int) -> float:
        """Seconds of the job by itself on as many cores."""
        return sum(stage.seconds(cores) for stage in self.stages)

    def run(self, gate: StageGate, sleep: Callable[[float], None], first: int = 0) -> None:
        """Go through the gate, stage by stage, from the one at place ``first``.

        ``sleep`` gets the seconds that a stage takes on the cores it was granted.
        """
        for place, stage in enumerate(self.stages[first:], start=first):
            with gate.stage(stage.need) as granted:
                sleep(stage.seconds(len(granted.cores)))
                if stage.trials:
                    told = self.trials(place + 1)
                    gate.tell(JobProgress(trials=told, total=self.trials()))


def batched_job(
    name: str,
    batches: int,
    *,
    search_s: float,
    build_s: float,
    profile_s: float,
    update_s: float,
    device: str = "",
) -> MockJob:
    """A job of equal batches: search, build on up to four cores, profile, update.

    Times are seconds on one core, and on the device for a profile.
    """
    one = (
        MockStage(need=StageNeed(kind=StageKind.SEARCH, task=name), work_s=search_s),
        MockStage(
            need=StageNeed(kind=StageKind.BUILD, task=name, most_cores=_BUILDERS), work_s=build_s
        ),
        MockStage(
            need=StageNeed(kind=StageKind.PROFILE, task=name), work_s=profile_s, trials=_TRIALS
        ),
        MockStage(need=StageNeed(kind=StageKind.UPDATE, task=name), work_s=update_s),
    )
    return MockJob(name=name, stages=one * batches, device=device)


def random_jobs(count: int, seed: int) -> tuple[MockJob, ...]:
    """Jobs of 8 to 40 batches; the same for the same seed.

    A job's batches take about the same time, give or take a fifth: build four times 1 to 3 seconds
    of a core, profile 2 to 10 seconds, search and update together 2 to 8 seconds.
    """
    chance = random.Random(seed)
    jobs = []
    for number in range(count):
        name = f"job{number}"
        build_s = sum(chance.uniform(1, 3) for _ in range(_BUILDERS))
        profile_s, model_s = chance.uniform(2, 10), chance.uniform(2, 8)
        stages: list[MockStage] = []
        for _ in range(chance.randint(8, 40)):
            batch = batched_job(
                name,
                1,
                search_s=model_s / 2 * chance.uniform(0.8, 1.2),
                build_s=build_s * chance.uniform(0.8, 1.2),
                profile_s=profile_s * chance.uniform(0.8, 1.2),
                update_s=model_s / 2 * chance.uniform(0.8, 1.2),
            )
            stages += batch.stages
        jobs.append(MockJob(name=name, stages=tuple(stages)))
    return tuple(jobs)
