"""Cores and devices that jobs share, and leases on them.

A profile has its device, and the core that the device is or that waits for it, to itself. Other
stages have cores only, and may have a device's core while nobody profiles there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tvm_ios.errors import JobError
from tvm_ios.support.stage_gate import GrantedStage, StageNeed

__all__ = ["Device", "DeviceKind", "DeviceWish", "Lease", "Machine"]


class DeviceKind(Enum):
    """Kind of device that a profile runs on."""

    CORE = "core"
    """A core of this machine."""
    GPU = "gpu"
    """A GPU of this machine: a core launches its kernels and waits."""
    RPC = "rpc"
    """A board behind an RPC tracker: a core here sends and waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A device, on which one profile at a time may run."""

    name: str
    kind: DeviceKind
    core: int | None = None
    """The core that it is, or that escorts each of its profiles; None: any core may escort one."""
    address: str = ""
    """Address of a board, ``host:port:key`` of its RPC tracker; empty on this machine."""
    key: str = ""
    """Key in its tracker's list: boards with one key are alike, be it on several trackers."""
    escorted: bool = True
    """Whether its profiles take a core of ours; a farm of boards with hosts of its own takes none.
    """
    node: str = ""
    """The node of a cluster that it belongs to; empty where there is one machine only."""


@dataclass(frozen=True, slots=True)
class DeviceWish:
    """The devices that will do for a profile."""

    name: str = ""
    """Name of the only device that will do; empty: any of the kind."""
    kind: DeviceKind | None = None
    """Kind of device that will do; None: every kind."""
    key: str = ""
    """Key of the boards that will do; empty: every device."""

    def takes(self, device: Device) -> bool:
        """Whether a device will do."""
        if self.name:
            return device.name == self.name
        return self.kind in (None, device.kind) and self.key in ("", device.key)

    def as_text(self) -> str:
        """The devices in words."""
        if self.name:
            return f"device {self.name}"
        if self.key:
            return f"any device with key {self.key}"
        return "any device" if self.kind is None else f"any device of kind {self.kind.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Cores and devices that jobs share.

    Raises
    ------
    JobError
        Cores or names come twice, or a device's core is not one of the cores.
    """

    cores: tuple[int, ...]
    """Numbers of the processors."""
    devices: tuple[Device, ...]

    def __post_init__(self) -> None:
        if not self.cores or len(set(self.cores)) < len(self.cores):
            raise JobError(f"cores must be one or more different numbers, not {self.cores}")
        names = [device.name for device in self.devices]
        for device in self.devices:
            if not device.name or names.count(device.name) > 1:
                raise JobError(f"device {device.name!r}: give each device a name of its own")
            if device.core is not None and device.core not in self.cores:
                raise JobError(
                    f"device {device.name!r} lies on core {device.core}, "
                    f"and the cores are {self.cores}: name one of these"
                )
            if device.kind is DeviceKind.CORE and device.core is None:
                raise JobError(f"device {device.name!r} is a core: say which, as core = 1")
        own = [device.core for device in self.devices if device.kind is DeviceKind.CORE]
        if len(set(own)) < len(own):
            raise JobError(f"two devices are the same core: {own}; give each a core of its own")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Cores, and for a profile a device, that one stage of a job has until it is released."""

    job: str
    epoch: int
    """Grows with every lease of a scheduler; who releases an older one than the job has is late."""
    need: StageNeed
    cores: tuple[int, ...]
    """Cores at the grant; empty only where a device takes none (see `Device.escorted`)."""
    device: str = ""
    address: str = ""

    @property
    def granted(self) -> GrantedStage:
        """The lease as the job learns of it at its gate."""
        return GrantedStage(cores=self.cores, device=self.device, address=self.address)
