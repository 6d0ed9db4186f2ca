"""Where prices and races are taken: this machine, a device of an RPC tracker, or a GPU."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from tvm_ios.runtime.gpu_session import GpuDevice, GpuSession
from tvm_ios.runtime.remote_device import RemoteDevice, RemoteSession

__all__ = ["MeasuringDevice", "MeasuringSession", "idle_lanes_help", "session_on"]

MeasuringDevice = RemoteDevice | GpuDevice
MeasuringSession = RemoteSession | GpuSession


def session_on(device: MeasuringDevice | None) -> AbstractContextManager[MeasuringSession | None]:
    """A session on a device; None for the lanes of this machine, which need none."""
    return nullcontext() if device is None else device.open()


def idle_lanes_help(device: MeasuringDevice | None) -> bool:
    """Whether a long operator is faster where lanes are idle; streams do not help each other."""
    return not isinstance(device, GpuDevice)
