"""Cores and devices, who has them, and who has to make room.

Rules, held by `tests/jobs/core/test_machine_of_states.py`:

- A profile has its device and its cores to itself, from the grant to the release.
- A stage that does not measure is granted free cores only. It is never stopped: compilers under a
  time limit would report kernels as broken. When a profile takes its last core it moves to a free
  one, and where there is none it shares with another such stage, never with a profile.
- No core is shared while another one is free.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from tvm_ios.jobs.core.resources import Device, DeviceWish, Lease, Machine
from tvm_ios.support.stage_gate import StageNeed

__all__ = ["Barred", "Holding", "Occupancy"]


@dataclass(slots=True)
class Barred:
    """Devices and cores kept for requests that are too old: younger ones may not have them."""

    devices: set[str] = field(default_factory=set)
    cores: set[int] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class Holding:
    """A lease in force, or one that waits until others have left its cores."""

    lease: Lease
    asked_s: float
    cores: tuple[int, ...]
    """Cores of the stage, also where its processes are yet to be pinned to them."""
    leaving: set[int] = field(default_factory=set)
    """Cores on which the stage may still be until the re-pin is acknowledged."""
    serial: int = 0
    """Number of re-pins so far."""
    granted_s: float | None = None
    """Time of the grant; None: the lease waits until others have left its cores."""
    revoked: bool = False
    work_s: float = 0.0
    """Core-seconds until ``since_s``; seconds of the device for a profile."""
    since_s: float = 0.0
    rate: float = 0.0
    """Cores' worth that it has: half a core where two share it."""

    def settle(self, now: float) -> None:
        """Add up what was computed until now at the present rate."""
        self.work_s += (now - self.since_s) * self.rate
        self.since_s = now


@dataclass(slots=True)
class _Core:
    number: int
    home: bool
    """Whether a device's profiles run here, or are escorted from here."""
    users: dict[int, Holding] = field(default_factory=dict)
    """Stages that do not measure, by epoch; more than one only where a profile drove one here."""
    left_by: int = 0
    """Stages that go away and have not said yet that they are gone."""
    owner: int = 0
    """Epoch of the profile that has it or waits for it; 0: none."""


class Occupancy:
    """Cores and devices of a machine, and the leases on them."""

    def __init__(self, machine: Machine) -> None:
        homes = {device.core for device in machine.devices}
        self._cores = {number: _Core(number, number in homes) for number in machine.cores}
        self._devices = {device.name: device for device in machine.devices}
        self._free_devices: dict[str, Device] = dict(self._devices)
        self._holders: dict[str, Holding] = {}
        self._lost: set[str] = set()
        self._free: dict[bool, dict[int, None]] = {False: {}, True: {}}
        self._shared: dict[int, None] = {}
        self._shrunk: dict[int, Holding] = {}
        self._owned = 0
        for core in self._cores.values():
            self._index(core)

    # ---- What there is ----

    @property
    def free_cores(self) -> int:
        """Cores that nobody has."""
        return len(self._free[False]) + len(self._free[True])

    @property
    def free_devices(self) -> int:
        """Devices that answer and that nobody has."""
        return len(self._free_devices)

    def holder(self, device: str) -> Holding | None:
        """The lease that has a device or is about to have it."""
        return self._holders.get(device)

    def is_lost(self, device: str) -> bool:
        """Whether it was lost and has not come back."""
        return device in self._lost

    def never_fits(self, need: StageNeed, wish: DeviceWish) -> str:
        """Reason why a stage would not fit even if nobody else were there; empty: it would."""
        if need.least_cores > len(self._cores):
            return f"needs {need.least_cores} cores and the machine has {len(self._cores)}"
        if need.kind.measures and not self._devices:
            return "needs a device and the machine has none"
        if need.kind.measures and not any(map(wish.takes, self._devices.values())):
            return f"needs {wish.as_text()} and the machine has {', '.join(self._devices)}"
        return ""

    # ---- Looking for room ----

    def room_for_stage(self, need: StageNeed, most: int, barred: Barred) -> tuple[int, ...] | None:
        """Free cores for a stage that does not measure, those of no device first."""
        found = tuple(islice(self._open(barred), most))
        return found if len(found) >= need.least_cores else None

    def room_for_profile(
        self, need: StageNeed, wish: DeviceWish, barred: Barred
    ) -> tuple[Device, tuple[int, ...]] | None:
        """A free device with cores for a profile; where one drives nobody away, that one."""
        named = self._free_devices.get(wish.name)
        devices = self._free_devices.values() if not wish.name else (named,) if named else ()
        second = None
        for device in devices:
            if device.name in barred.devices or not wish.takes(device):
                continue
            cores = self._cores_for(device, need, barred)
            if cores is None:
                continue
            if not any(self._cores[number].users for number in cores):
                return device, cores
            second = second or (device, cores)
        return second

    def _cores_for(self, device: Device, need: StageNeed, barred: Barred) -> tuple[int, ...] | None:
        if not device.escorted:
            return ()
        chosen: list[int] = []
        if device.core is not None:
            if self._cores[device.core].owner or device.core in barred.cores:
                return None
            chosen.append(device.core)
        # A core of a device is taken for what is needed only: its own profiles would have to wait.
        for home, wanted in ((False, need.most_cores), (True, need.least_cores)):
            for number in self._free[home]:
                if len(chosen) >= max(wanted, need.least_cores):
                    break
                if number not in barred.cores and number not in chosen:
                    chosen.append(number)
        if len(chosen) < need.least_cores:
            used = [
                core
                for core in self._cores.values()
                if not core.owner and core.number not in barred.cores and core.number not in chosen
            ]
            used.sort(key=lambda core: (core.home, len(core.users)))
            chosen += [core.number for core in used[: need.least_cores - len(chosen)]]
        if len(chosen) < need.least_cores:
            return None
        # Whoever is driven away needs a core that no profile has, since no stage is ever stopped.
        nowhere = len(self._cores) - self._owned - len(chosen) < 1
        if nowhere and any(self._cores[number].users for number in chosen):
            return None
        return tuple(chosen)

    def claim(self, need: StageNeed, wish: DeviceWish, barred: Barred) -> None:
        """Keep all that a request could use which does not fit yet.

        For a lost device no core is kept: what a profile waits for there is not the cores.
        """
        if not need.kind.measures:
            barred.cores.update(self._cores)
            return
        for device in filter(wish.takes, self._devices.values()):
            barred.devices.add(device.name)
            if device.name in self._lost or not device.escorted:
                continue
            if device.core is None or need.least_cores > 1:
                barred.cores.update(self._cores)
            else:
                barred.cores.add(device.core)

    # ---- Taking and giving back ----

    def take(self, holding: Holding, now: float) -> list[Holding]:
        """Give a lease its cores and device; return the stages that have to be pinned anew."""
        lease = holding.lease
        if not lease.need.kind.measures:
            self._change(now, holding, joins=holding.cores)
            return []
        if lease.device:
            del self._free_devices[lease.device]
            self._holders[lease.device] = holding
        driven: dict[int, Holding] = {}
        for number in holding.cores:
            core = self._cores[number]
            core.owner = lease.epoch
            self._owned += 1
            self._index(core)
            driven.update(core.users)
        for other in driven.values():
            rest = tuple(number for number in other.cores if number not in holding.cores)
            self._move(other, rest or (self._refuge(),), now)
        return list(driven.values())

    def is_ready(self, holding: Holding) -> bool:
        """Whether everybody else has left the cores of a lease."""
        if not holding.lease.need.kind.measures:
            return True
        cores = (self._cores[number] for number in holding.cores)
        return not any(core.users or core.left_by for core in cores)

    def start(self, holding: Holding, now: float) -> None:
        """Begin to count what a lease computes."""
        holding.granted_s = holding.since_s = now
        if holding.lease.need.kind.measures:
            holding.rate = 1.0

    def release(self, holding: Holding, now: float) -> None:
        """Take back all that a lease has, also where it is only leaving."""
        holding.settle(now)
        device = holding.lease.device
        if device:
            del self._holders[device]
            if device not in self._lost:
                self._free_devices[device] = self._devices[device]
        self.settle_leaving(holding)
        self._shrunk.pop(holding.lease.epoch, None)
        if not holding.lease.need.kind.measures:
            self._change(now, holding, leaves=holding.cores)
            return
        for number in holding.cores:
            self._cores[number].owner = 0
            self._owned -= 1
            self._index(self._cores[number])

    def lose(self, device: str) -> None:
        """Grant a device to nobody until it is back."""
        self._lost.add(device)
        self._free_devices.pop(device, None)

    def regain(self, device: str) -> None:
        """Grant a device again, once nobody has it."""
        self._lost.discard(device)
        if device not in self._holders:
            self._free_devices[device] = self._devices[device]

    # ---- Moving ----

    def unshare(self, now: float) -> Iterator[Holding]:
        """Move stages that share a core to free ones."""
        for number in list(self._shared):
            while number in self._shared:
                free = self._first_free(Barred())
                if free is None:
                    return
                latest = next(reversed(self._cores[number].users.values()))
                kept = (core for core in latest.cores if core != number)
                self._move(latest, (*kept, free), now)
                yield latest

    def regrow(self, barred: Barred, now: float) -> Iterator[Holding]:
        """Give stages back what profiles took from them."""
        for holding in list(self._shrunk.values()):
            cores = list(holding.cores)
            while len(cores) < len(holding.lease.cores):
                free = self._first_free(barred, cores)
                if free is None:
                    break
                cores.append(free)
            if len(cores) > len(holding.cores):
                self._move(holding, tuple(cores), now)
                yield holding

    def _first_free(self, barred: Barred, besides: Iterable[int] = ()) -> int | None:
        return next((number for number in self._open(barred) if number not in besides), None)

    def _open(self, barred: Barred) -> Iterator[int]:
        """Free cores that are not kept for a request that is too old, those of no device first."""
        cores = (number for home in (False, True) for number in self._free[home])
        return (number for number in cores if number not in barred.cores)

    def _refuge(self) -> int:
        """A core for a stage that has lost its last one."""
        free = self._first_free(Barred())
        if free is not None:
            return free
        open_to_all = (core for core in self._cores.values() if not core.owner)
        return min(open_to_all, key=lambda core: (len(core.users), core.number)).number

    def _move(self, holding: Holding, cores: tuple[int, ...], now: float) -> None:
        left = [number for number in holding.cores if number not in cores]
        joined = [number for number in cores if number not in holding.cores]
        # It comes back to a core that it was still leaving: nobody needs to wait for that any more.
        for number in joined:
            if number in holding.leaving:
                holding.leaving.discard(number)
                self._cores[number].left_by -= 1
        for number in left:
            holding.leaving.add(number)
            self._cores[number].left_by += 1
        holding.cores = cores
        holding.serial += 1
        self._change(now, holding, joins=joined, leaves=left)
        if len(cores) < len(holding.lease.cores):
            self._shrunk[holding.lease.epoch] = holding
        else:
            self._shrunk.pop(holding.lease.epoch, None)

    def _change(
        self,
        now: float,
        holding: Holding,
        joins: Iterable[int] = (),
        leaves: Iterable[int] = (),
    ) -> None:
        """Put a stage that does not measure on cores and off others; rates of all there change."""
        touched: dict[int, Holding] = {holding.lease.epoch: holding}
        for number in (*joins, *leaves):
            touched.update(self._cores[number].users)
        # What was computed so far counts at the old rates.
        for other in touched.values():
            other.settle(now)
        for number in joins:
            self._cores[number].users[holding.lease.epoch] = holding
            self._index(self._cores[number])
        for number in leaves:
            self._cores[number].users.pop(holding.lease.epoch, None)
            self._index(self._cores[number])
        for other in touched.values():
            other.rate = sum(1 / max(len(self._cores[number].users), 1) for number in other.cores)

    def settle_leaving(self, holding: Holding) -> None:
        """Believe that a stage has left what it was to leave."""
        for number in sorted(holding.leaving):
            self._cores[number].left_by -= 1
            self._index(self._cores[number])
        holding.leaving.clear()

    def _index(self, core: _Core) -> None:
        # A core is not free before the re-pin is acknowledged, or a profile would have company.
        if core.users or core.left_by or core.owner:
            self._free[core.home].pop(core.number, None)
        else:
            self._free[core.home][core.number] = None
        if len(core.users) > 1:
            self._shared[core.number] = None
        else:
            self._shared.pop(core.number, None)
