"""Machines and jobs to compare policies on, and what came out of a comparison."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tvm_ios.jobs.core.estimates import Estimates
from tvm_ios.jobs.core.job_state import JobSpec, Remaining
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName, policy_named
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios_lab.jobs.simulation.mock_job import MockJob, random_jobs
from tvm_ios_lab.jobs.simulation.simulator import SimulatedRun, simulate

__all__ = [
    "SCENARIOS",
    "Knowledge",
    "Outcome",
    "Scenario",
    "WrongEstimates",
    "compare",
    "lower_bound_s",
]

_NEVER_S = 1e9
"""Jobs of a batch that is all there at the start grow old together: policies are compared alone."""


def _boards(count: int, *, escorted: bool = False) -> tuple[Device, ...]:
    return tuple(
        Device(name=f"board{number}", kind=DeviceKind.RPC, escorted=escorted)
        for number in range(count)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A machine with a number of random jobs, all there at the start."""

    machine: Machine
    jobs: int
    max_active: int
    """Workers alive: about four for each device."""


SCENARIOS: Mapping[str, Scenario] = {
    "2 cores, one is the device, 4 jobs": Scenario(
        machine=Machine(cores=(0, 1), devices=(Device(name="cpu0", kind=DeviceKind.CORE, core=1),)),
        jobs=4,
        max_active=4,
    ),
    "8 cores, 2 devices, 8 jobs": Scenario(
        machine=Machine(cores=tuple(range(8)), devices=_boards(2)), jobs=8, max_active=8
    ),
    "8 cores, 2 devices, 8 jobs, each profile takes a core": Scenario(
        machine=Machine(cores=tuple(range(8)), devices=_boards(2, escorted=True)),
        jobs=8,
        max_active=8,
    ),
    "64 cores, 2 devices, 16 jobs": Scenario(
        machine=Machine(cores=tuple(range(64)), devices=_boards(2)), jobs=16, max_active=8
    ),
    "300 cores, 100 devices, 1000 jobs": Scenario(
        machine=Machine(cores=tuple(range(300)), devices=_boards(100)), jobs=1000, max_active=400
    ),
    "the same, each profile takes a core": Scenario(
        machine=Machine(cores=tuple(range(300)), devices=_boards(100, escorted=True)),
        jobs=1000,
        max_active=400,
    ),
}


class WrongEstimates(Estimates):
    """Estimates wrong by up to two times either way, each job's by its own factor, for good."""

    def __init__(self, *, cores: int, seed: int) -> None:
        super().__init__(cores=cores)
        self._seed = seed
        self._factors: dict[str, float] = {}

    def remaining(self, spec: JobSpec) -> Remaining:
        """Rest of a job, times its factor."""
        factor = self._factors.get(spec.name)
        if factor is None:
            chance = random.Random(f"{self._seed} {spec.name}")
            factor = self._factors[spec.name] = 2.0 ** chance.uniform(-1, 1)
        left = super().remaining(spec)
        return Remaining(
            device_s=factor * left.device_s,
            core_s=factor * left.core_s,
            alone_s=factor * left.alone_s,
        )


class Knowledge(Enum):
    """Knowledge of jobs when they are submitted, besides how many candidates they measure."""

    RIGHT = "right"
    """Right durations of all jobs."""
    WRONG = "wrong"
    """Durations that are up to two times too long or too short, and nobody ever learns."""
    NONE = "none"
    """No durations: jobs that have not begun are thought to be like the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A policy in a scenario."""

    makespan_s: float
    busy: float
    """The part of the time that devices were profiled on, their mean."""
    mean_completion_s: float
    over_bound: float
    """Makespan over what no policy can beat."""
    events: int


def lower_bound_s(jobs: Sequence[MockJob], machine: Machine) -> float:
    """Seconds that no policy can beat: devices, cores, or the longest job by itself."""
    device_s = sum(job.device_s for job in jobs)
    core_s = sum(job.core_s for job in jobs)
    if machine.devices[0].escorted:
        core_s += device_s
    return max(
        device_s / len(machine.devices),
        core_s / len(machine.cores),
        *(job.alone_s(len(machine.cores)) for job in jobs),
    )


def compare(
    scenario: Scenario, policy: PolicyName, seed: int, knowledge: Knowledge = Knowledge.RIGHT
) -> tuple[SimulatedRun, Outcome]:
    """Run a scenario with the jobs of a seed."""
    machine, wrong = scenario.machine, knowledge is Knowledge.WRONG
    jobs = [
        replace(job, known=knowledge is not Knowledge.NONE)
        for job in random_jobs(scenario.jobs, seed)
    ]
    run = simulate(
        jobs,
        machine,
        policy_named(policy),
        Limits(max_active=scenario.max_active, max_wait_s=_NEVER_S, max_start_wait_s=_NEVER_S),
        estimates=WrongEstimates(cores=len(machine.cores), seed=seed) if wrong else None,
    )
    outcome = Outcome(
        makespan_s=run.makespan_s,
        busy=run.busy(machine),
        mean_completion_s=run.mean_completion_s(),
        over_bound=run.makespan_s / lower_bound_s(jobs, machine),
        events=len(run.journal),
    )
    return run, outcome
