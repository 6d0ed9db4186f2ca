"""The rest of all jobs together, at the bottleneck."""

from __future__ import annotations

from collections import defaultdict

from tvm_ios.jobs.core.job_state import Remaining
from tvm_ios.jobs.core.resources import Machine

__all__ = ["Load"]


class Load:
    """Sums over jobs that have not ended, kept while what is left of each changes."""

    def __init__(self, machine: Machine) -> None:
        escorted = sum(device.escorted for device in machine.devices)
        self._devices = max(len(machine.devices), 1)
        self._cores = len(machine.cores)
        self._escorted = escorted / self._devices
        self._left: dict[str, tuple[str, Remaining]] = {}
        self._device_s = self._core_s = 0.0
        self._pinned: defaultdict[str, float] = defaultdict(float)

    def set(self, job: str, pin: str, left: Remaining | None) -> None:
        """Count what is left of a job, that needs one device or any; None: it has ended."""
        old_pin, old = self._left.pop(job, (pin, Remaining()))
        self._add(old_pin, old, -1.0)
        if left is not None:
            self._left[job] = pin, left
            self._add(pin, left, 1.0)
        elif not self._left:
            # Rounding does not pile up.
            self._device_s = self._core_s = 0.0
            self._pinned.clear()

    def _add(self, pin: str, left: Remaining, sign: float) -> None:
        self._device_s += sign * left.device_s
        self._core_s += sign * left.core_s
        if pin:
            self._pinned[pin] += sign * left.device_s

    @property
    def seconds(self) -> float:
        """Seconds that the bottleneck needs, if it never idles: devices, one device, or cores."""
        return max(
            self._device_s / self._devices,
            (self._core_s + self._escorted * self._device_s) / self._cores,
            *self._pinned.values(),
            0.0,
        )
