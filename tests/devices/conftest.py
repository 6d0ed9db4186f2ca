"""A GPU as the driver would describe it."""

from __future__ import annotations

from tvm_ios.devices.gpu import GpuDevice
from tvm_ios.runtime.gpu.device import DeviceFacts

H100 = GpuDevice(
    ordinal=0,
    facts=DeviceFacts(
        name="NVIDIA H100",
        compute_capability=(9, 0),
        multiprocessors=132,
        memory_bytes=80 << 30,
        l2_bytes=50 << 20,
        driver_version=12080,
    ),
)
