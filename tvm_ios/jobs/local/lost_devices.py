"""Devices behind RPC trackers: told of when they go, be it while nobody uses them, and come back.

A tracker forgets a device with its server, so a look at it each second costs nothing and finds a
killed server within two. A board without power stays in its list: jobs find that out.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress

from tvm_ios.jobs.core.events import DeviceBack, DeviceLost, Event
from tvm_ios.jobs.core.resources import Device, DeviceKind
from tvm_ios.jobs.tracker import TrackerAddress

__all__ = ["LostDevices"]

_LOG = logging.getLogger(__name__)

_LOOK_S = 1.0
_ASK = (
    "import sys\n"
    "from tvm_ios.runtime.rpc.address import DeviceAddress\n"
    "from tvm_ios.tuning.measured_batch import device_answers\n"
    "sys.exit(not device_answers(DeviceAddress.granted(sys.argv[1])))\n"
)
"""Program that asks a device, in a process of its own: TVM's sessions block."""


class LostDevices:
    """Devices of RPC trackers that have gone; others cannot be lost.

    ``say`` is told `DeviceLost` and `DeviceBack`, by turns for each.
    """

    def __init__(self, devices: Iterable[Device], say: Callable[[Event], None]) -> None:
        self._devices = {each.name: each for each in devices if each.kind is DeviceKind.RPC}
        self._say = say
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._watch = asyncio.ensure_future(self._look()) if self._devices else None

    def add(self, name: str) -> None:
        """Tell that a device is lost, and that it is back as soon as it answers."""
        device = self._devices.get(name)
        if device is None or name in self._asking:
            return
        command = TrackerAddress.of(device.address).command
        _LOG.warning("device %s is lost; %s brings it back", name, command)
        self._asking[name] = asyncio.ensure_future(self._ask(device))
        self._say(DeviceLost(name))

    async def close(self) -> None:
        """Look and ask no more; nobody who asks is left."""
        tasks = [*self._asking.values(), *((self._watch,) if self._watch else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self) -> None:
        addresses = dict.fromkeys(device.address for device in self._devices.values())
        while True:
            for address in addresses:
                servers = await TrackerAddress.of(address).servers()
                # Which of several boards under one key has gone no tracker tells.
                for name in self._present(address)[servers:]:
                    self.add(name)
            await asyncio.sleep(_LOOK_S)

    def _present(self, address: str) -> list[str]:
        """Devices at an address that are not lost."""
        devices = self._devices.values()
        here = [each.name for each in devices if each.address == address]
        return [name for name in here if name not in self._asking]

    async def _ask(self, device: Device) -> None:
        address = TrackerAddress.of(device.address)
        while not (await self._has_another(device, address) and await _answers(device)):
            await asyncio.sleep(_LOOK_S)
        del self._asking[device.name]
        _LOG.warning("device %s is back", device.name)
        self._say(DeviceBack(device.name))

    async def _has_another(self, device: Device, address: TrackerAddress) -> bool:
        """Whether a tracker has a server besides those of devices that are not lost."""
        return await address.servers() > len(self._present(device.address))


async def _answers(device: Device) -> bool:
    """Whether the device gives a session, and not only a name in a list."""
    asker = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", _ASK, device.address, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        return await asker.wait() == 0
    finally:
        with suppress(ProcessLookupError):
            asker.kill()  # its worker sees the end of its pipe
        await asker.wait()
