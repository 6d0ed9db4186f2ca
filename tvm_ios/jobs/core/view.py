"""The view that a policy has of jobs, and the proposals that it may make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tvm_ios.jobs.core.job_state import Remaining
from tvm_ios.jobs.core.resources import DeviceWish, Machine
from tvm_ios.support.stage_gate import StageKind, StageNeed

__all__ = ["Candidate", "Policy", "Proposal", "View"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A job that waits for a stage, or for its worker."""

    job: str
    number: int
    """Place in the order of submission, from 0."""
    need: StageNeed
    """Need of the stage; of a job that waits for its worker, that of preparing."""
    asked_s: float
    left: Remaining
    """Rest of the whole job, by estimates."""
    wish: DeviceWish
    """The devices that will do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The state of all, right before a decision. What nothing is free for is left out."""

    now_s: float
    machine: Machine
    profiles: tuple[Candidate, ...]
    """Jobs that wait for a device; empty when none is free."""
    stages: tuple[Candidate, ...]
    """Jobs that wait for cores only; empty when none is free."""
    starts: tuple[Candidate, ...]
    """Jobs that wait for a worker; empty when there may be no more."""
    running: Mapping[StageKind, int]
    """Leases in force, or about to be, by kind."""
    live: Mapping[str, int]
    """Jobs with a worker by the device they must have; under "" those that take any."""
    load_s: float
    """Seconds that all jobs still need at the bottleneck: time that no order can beat."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A job that should go on now: its stage, or its worker, whichever it waits for."""

    job: str
    most_cores: int | None = None
    """Fewer cores than it can make use of; None: as many as are free."""


class Policy(Protocol):
    """A policy, which says which job goes first."""

    def choose(self, view: View) -> Iterable[Proposal]:
        """Jobs that should go on, best first; each is granted if it still fits.

        It may be a generator, which is asked only while something is free.
        """
