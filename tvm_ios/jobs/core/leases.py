"""Requests that become leases, and leases that end: the half of the scheduler that knows room.

A request is granted where there is room, whoever proposes it, and nothing else is ever granted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tvm_ios.jobs.core.commands import Command, GrantLease, RePinLease
from tvm_ios.jobs.core.occupancy import Barred, Holding, Occupancy
from tvm_ios.jobs.core.requests import Requests
from tvm_ios.jobs.core.resources import Lease, Machine
from tvm_ios.jobs.core.view import Candidate
from tvm_ios.support.stage_gate import StageKind

__all__ = ["Leases"]


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
