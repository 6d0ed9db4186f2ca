"""Requests that become leases, and leases that end: the half of the scheduler that knows room.

A request is granted where there is room, whoever proposes it, and nothing else is ever granted.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from itertools import count

from tvm_ios.jobs.core.commands import Command, GrantLease, RePinLease
from tvm_ios.jobs.core.occupancy import Barred, Holding, Occupancy
from tvm_ios.jobs.core.resources import Lease, Machine
from tvm_ios.jobs.core.view import Candidate
from tvm_ios.support.stage_gate import StageKind

__all__ = ["Leases", "Requests"]


class Leases:
    """Requests and leases, and the commands that follow. A job has one lease at most."""

    def __init__(self, machine: Machine, epoch: int = 0) -> None:
        self.occupancy = Occupancy(machine)
        self.requests = Requests()
        self.running: Counter[StageKind] = Counter()
        """Leases by kind, those that wait for others to leave included."""
        self._leases: dict[str, Holding] = {}
        self._pending: dict[str, Holding] = {}
        self._barred = Barred()
        self._epoch = epoch

    def of(self, job: str) -> Holding | None:
        """The lease that a job has, or gets once others have left."""
        return self._leases.get(job)

    def has_room(self) -> bool:
        """Whether anything is free that a request could need."""
        return bool(
            (self.requests.profiles and self.occupancy.free_devices)
            or (self.requests.stages and self.occupancy.free_cores)
        )

    def give_back(self, job: str, now: float) -> Holding:
        """End a job's lease."""
        holding = self._leases.pop(job)
        self._pending.pop(job, None)
        self.occupancy.release(holding, now)
        self.running[holding.lease.need.kind] -= 1
        return holding

    def acknowledge(self, job: str, epoch: int, serial: int) -> None:
        """Take note that a stage has left cores, if it speaks of the last re-pin of its lease."""
        holding = self._leases.get(job)
        if holding is not None and (holding.lease.epoch, holding.serial) == (epoch, serial):
            self.occupancy.settle_leaving(holding)

    # ---- Decisions: settle, then any number of grants, then spread ----

    def settle(self, now: float, max_wait_s: float) -> list[Command]:
        """Grant what waited for others to leave, part who shares, and serve who is too old.

        What the oldest that do not fit could use is kept for them until the next decision.
        """
        self._barred = Barred()
        commands = self._grant_ready(now)
        commands += _repins(self.occupancy.unshare(now))
        for candidate in self.requests.too_old(now, max_wait_s):
            commands += self.grant(candidate, now)
            if self.requests.get(candidate.job) is candidate:
                self.occupancy.claim(candidate.need, candidate.wish, self._barred)
        return commands

    def grant(self, asked: Candidate, now: float, most_cores: int | None = None) -> list[Command]:
        """Give a request a lease, if there is room: nothing follows if there is none.

        A profile may have to wait until others have left its cores: then `RePinLease` comes first.
        """
        need, name, address = asked.need, "", ""
        if need.kind.measures:
            found = self.occupancy.room_for_profile(need, asked.wish, self._barred)
            if found is None:
                return []
            device, cores = found
            name, address = device.name, device.address
        else:
            most = need.most_cores if most_cores is None else min(most_cores, need.most_cores)
            most = max(most, need.least_cores)
            free = self.occupancy.room_for_stage(need, most, self._barred)
            if free is None:
                return []
            cores = free
        self.requests.remove(asked.job)
        self._epoch += 1
        lease = Lease(
            job=asked.job, epoch=self._epoch, need=need, cores=cores, device=name, address=address
        )
        holding = Holding(lease=lease, asked_s=asked.asked_s, cores=cores)
        self._leases[asked.job] = self._pending[asked.job] = holding
        self.running[need.kind] += 1
        driven = self.occupancy.take(holding, now)
        # A stage that was driven away has to acknowledge first: its RePinned brings the grant.
        return [*_repins(driven), *(self._grant_ready(now) if not driven else ())]

    def spread(self, now: float) -> list[Command]:
        """Give stages back what profiles took from them, if nobody else wants it."""
        return _repins(self.occupancy.regrow(self._barred, now))

    def _grant_ready(self, now: float) -> list[Command]:
        commands: list[Command] = []
        for job, holding in tuple(self._pending.items()):
            if self.occupancy.is_ready(holding):
                del self._pending[job]
                self.occupancy.start(holding, now)
                commands.append(GrantLease(holding.lease))
        return commands


def _repins(moved: Iterable[Holding]) -> list[Command]:
    return [
        RePinLease(
            job=holding.lease.job,
            epoch=holding.lease.epoch,
            serial=holding.serial,
            cores=holding.cores,
        )
        for holding in moved
    ]


class Requests:
    """Requests of jobs, one a job at most. Adding and removing take logarithmic time."""

    def __init__(self) -> None:
        self.profiles: dict[str, Candidate] = {}
        """Requests that need a device, by job."""
        self.stages: dict[str, Candidate] = {}
        """Requests that need cores only, by job."""
        self._by_age: list[tuple[float, int, Candidate]] = []
        self._old: dict[str, Candidate] = {}
        self._order = count()

    def __len__(self) -> int:
        return len(self.profiles) + len(self.stages)

    def get(self, job: str) -> Candidate | None:
        """The request of a job; None: it waits for nothing."""
        return self.profiles.get(job) or self.stages.get(job)

    def add(self, candidate: Candidate) -> None:
        """Add the request of a job that has none."""
        waiting = self.profiles if candidate.need.kind.measures else self.stages
        waiting[candidate.job] = candidate
        heapq.heappush(self._by_age, (candidate.asked_s, next(self._order), candidate))

    def remove(self, job: str) -> Candidate | None:
        """Remove and return a job's request; None if it had none."""
        self._old.pop(job, None)
        return self.profiles.pop(job, None) or self.stages.pop(job, None)

    def too_old(self, now: float, bound_s: float) -> tuple[Candidate, ...]:
        """Requests that have waited longer than a bound, oldest first."""
        grown = False
        while self._by_age and self._by_age[0][0] + bound_s <= now:
            candidate = heapq.heappop(self._by_age)[2]
            # Removed requests stay in the heap until they come up, and their job may have another.
            if self.get(candidate.job) is candidate:
                self._old[candidate.job] = candidate
                grown = True
        if grown:
            ordered = sorted(self._old.values(), key=lambda old: old.asked_s)
            self._old = {candidate.job: candidate for candidate in ordered}
        return tuple(self._old.values())

    def oldest_s(self) -> float | None:
        """Time of the oldest request that is not yet too old; None: there is none."""
        while self._by_age:
            candidate = self._by_age[0][2]
            if self.get(candidate.job) is candidate:
                return candidate.asked_s
            heapq.heappop(self._by_age)
        return None
