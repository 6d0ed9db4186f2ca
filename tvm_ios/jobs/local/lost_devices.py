"""Devices that jobs found lost: told of, and asked again until they answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from tvm_ios.jobs.core.events import DeviceBack, DeviceLost, Event
from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine

__all__ = ["LostDevices"]

_AGAIN_S = 2.0
_ASK = (
    "import sys\n"
    "from tvm_ios.tuning.measured_batch import device_answers, granted_address\n"
    "sys.exit(not device_answers(granted_address(sys.argv[1])))\n"
)
"""In a process of its own: TVM's sessions block, and a daemon has no use for TVM otherwise."""


class LostDevices:
    """Devices of RPC trackers that did not answer a job; others cannot be lost."""

    def __init__(self, machine: Machine, say: Callable[[Event], None]) -> None:
        self._devices = {each.name: each for each in machine.devices if each.kind is DeviceKind.RPC}
        self._say = say
        self._asking: dict[str, asyncio.Task[None]] = {}

    def add(self, name: str) -> None:
        """Tell that a device is lost, and that it is back as soon as it answers."""
        device = self._devices.get(name)
        if device is None or name in self._asking:
            return
        self._say(DeviceLost(name))
        self._asking[name] = asyncio.ensure_future(self._ask(device))

    def close(self) -> None:
        """Ask no more."""
        for task in self._asking.values():
            task.cancel()

    async def _ask(self, device: Device) -> None:
        answers = False
        while not answers:
            await asyncio.sleep(_AGAIN_S)
            asker = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _ASK, device.address, stderr=asyncio.subprocess.DEVNULL
            )
            answers = await asker.wait() == 0
        del self._asking[device.name]
        self._say(DeviceBack(device.name))
