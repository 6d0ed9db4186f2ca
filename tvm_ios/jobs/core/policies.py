"""Policies: who goes first.

All but two only rank jobs. Profiles are proposed before other stages, since those give a device's
core back, and workers last. ``sequential`` is what one does by hand, a job a device from its first
stage to its last; ``lockstep`` has all jobs in stages of one kind at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from tvm_ios.jobs.core.view import Candidate, Policy, Proposal, View

__all__ = ["Lockstep", "PolicyName", "Ranked", "Sequential", "policy_named"]

_CRITICAL = 0.7
"""A job with this part of the bottleneck's remaining load left decides when everything ends."""

Rank = Callable[[Candidate, View], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Ranked:
    """The job with the least rank first, then the one that was submitted first."""

    rank: Rank

    def choose(self, view: View) -> Iterator[Proposal]:
        """Propose everybody, in this order."""
        for candidates in (view.profiles, view.stages, view.starts):
            if len(candidates) == 1:
                yield Proposal(candidates[0].job)
                continue
            # Mostly one or two of hundreds are granted: a heap orders no more than are taken.
            heap = [(self.rank(each, view), each.number, each.job) for each in candidates]
            heapq.heapify(heap)
            while heap:
                yield Proposal(heapq.heappop(heap)[2])


def _first_asked(candidate: Candidate, _view: View) -> tuple[float, ...]:
    return (candidate.asked_s,)


def _shortest(candidate: Candidate, _view: View) -> tuple[float, ...]:
    return (candidate.left.alone_s,)


def _longest(candidate: Candidate, _view: View) -> tuple[float, ...]:
    return (-candidate.left.alone_s,)


def _slack(candidate: Candidate, view: View) -> tuple[float, ...]:
    left = candidate.left.alone_s
    return (0, -left) if left >= _CRITICAL * view.load_s else (1, left)


class Sequential:
    """A job a device, one after the other, each with its share of the cores."""

    def choose(self, view: View) -> Iterator[Proposal]:
        """Propose whoever waits, and workers only while there is a device for each."""
        devices = max(len(view.machine.devices), 1)
        share = max(len(view.machine.cores) // devices, 1)
        for candidate in (*view.profiles, *view.stages):
            yield Proposal(candidate.job, share)
        free = devices - sum(view.live.values())
        live = dict(view.live)
        for candidate in view.starts:
            if free < 1:
                return
            device = candidate.wish.name
            if not device or not live.get(device):
                live[device] = live.get(device, 0) + 1
                free -= 1
                yield Proposal(candidate.job)


class Lockstep:
    """Stages of one kind at a time: all search, then all build, then all profile."""

    def choose(self, view: View) -> Iterator[Proposal]:
        """Propose who waits for what others compute, or for what most wait for."""
        asked = (*view.profiles, *view.stages)
        kinds = [kind for kind, leases in view.running.items() if leases]
        if not kinds and asked:
            waiting = [candidate.need.kind for candidate in asked]
            kinds = [max(waiting, key=waiting.count)]
        for candidate in asked:
            if candidate.need.kind in kinds:
                yield Proposal(candidate.job)
        for candidate in view.starts:
            yield Proposal(candidate.job)


class PolicyName(Enum):
    """Name of a policy in files and on the command line."""

    SEQUENTIAL = "sequential"
    LOCKSTEP = "lockstep"
    FIFO = "fifo"
    """The job that asked first."""
    SHORTEST = "shortest"
    """The job of which least is left: small mean completion, long tail."""
    LONGEST = "longest"
    """The job of which most is left: short makespan, late first results."""
    SLACK = "slack"
    """Shortest, but a job that would end last whatever happens goes first."""


_MAKERS: dict[PolicyName, Callable[[], Policy]] = {
    PolicyName.SEQUENTIAL: Sequential,
    PolicyName.LOCKSTEP: Lockstep,
    PolicyName.FIFO: lambda: Ranked(_first_asked),
    PolicyName.SHORTEST: lambda: Ranked(_shortest),
    PolicyName.LONGEST: lambda: Ranked(_longest),
    PolicyName.SLACK: lambda: Ranked(_slack),
}


def policy_named(name: PolicyName) -> Policy:
    """The policy of this name."""
    return _MAKERS[name]()
