"""A GPU: its facts, its primary context, and the streams and events made on it. No TVM here.

TVM works in the same primary context, so handles and memory of both go together.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable
from ctypes import c_float, c_size_t
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Self

from tvm_ios.errors import HostError
from tvm_ios.runtime.gpu.driver import CudaCallError, CudaDriver, load_driver

__all__ = ["CudaDevice", "CudaHandles", "DeviceFacts", "elapsed_ns", "event_ns", "require_arch"]

_NON_BLOCKING = 1
"""Flag of a stream that does not wait for the legacy default stream, nor that one for it."""
_NO_TIMING = 2
_TIMED = "a timed run"
_ALONE: dict[int, threading.RLock] = {}
"""Lock of :attr:`CudaDevice.alone` by number of the GPU: all users of its context share it."""


class _Attribute(IntEnum):
    """Facts the driver is asked for, by the numbers of ``CUdevice_attribute``."""

    MULTIPROCESSORS = 16
    L2_BYTES = 38
    CAPABILITY_MAJOR = 75
    CAPABILITY_MINOR = 76


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """Facts of a GPU; part of the identity of whatever is measured on it."""

    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    driver_version: int
    """Newest CUDA that the driver serves, as 1000 major + 10 minor."""

    @property
    def arch(self) -> str:
        """Architecture that code for the GPU is compiled for, such as ``sm_90``."""
        return f"sm_{''.join(map(str, self.compute_capability))}"

    @property
    def driver_cuda(self) -> str:
        """Newest CUDA that the driver serves, such as ``12.8``."""
        return f"{self.driver_version // 1000}.{self.driver_version % 1000 // 10}"


class CudaDevice:
    """A GPU and its primary context, held until :meth:`close`; a context manager.

    Its number is that among the GPUs that are visible. Every method that calls the driver raises
    CudaCallError where that refuses.
    """

    def __init__(self, ordinal: int = 0, driver: CudaDriver | None = None) -> None:
        self.driver = driver or load_driver()
        self.ordinal = ordinal
        count = self.driver.integer("cuDeviceGetCount")
        if not 0 <= ordinal < count:
            raise HostError(
                f"there is no cuda({ordinal}): the driver shows {count} GPUs; "
                "see nvidia-smi and CUDA_VISIBLE_DEVICES"
            )
        self._device = self.driver.integer("cuDeviceGet", ordinal)
        self.alone = _ALONE.setdefault(ordinal, threading.RLock())
        """Lock for captures and for waits for all work: CUDA forbids that wait during a
        capture, and spoils the capture. Taken last: its holder waits for no other lock."""
        self._context: int | None = self.driver.make("cuDevicePrimaryCtxRetain", self._device)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def activate(self) -> None:
        """Make the GPU's context that of the calling thread, which most calls need."""
        self.driver.call("cuCtxSetCurrent", self._context)

    @cached_property
    def facts(self) -> DeviceFacts:
        """Facts of the GPU, asked for once."""
        name = ctypes.create_string_buffer(256)
        self.driver.call("cuDeviceGetName", name, len(name), self._device)
        return DeviceFacts(
            name=name.value.decode(errors="replace"),
            compute_capability=(
                self._attribute(_Attribute.CAPABILITY_MAJOR),
                self._attribute(_Attribute.CAPABILITY_MINOR),
            ),
            multiprocessors=self._attribute(_Attribute.MULTIPROCESSORS),
            memory_bytes=self.driver.integer("cuDeviceTotalMem_v2", self._device, type_=c_size_t),
            l2_bytes=self._attribute(_Attribute.L2_BYTES),
            driver_version=self.driver.integer("cuDriverGetVersion"),
        )

    @cached_property
    def bus_id(self) -> str:
        """Slot of the GPU, as nvidia-smi names it."""
        text = ctypes.create_string_buffer(32)
        self.driver.call("cuDeviceGetPCIBusId", text, len(text), self._device)
        return text.value.decode(errors="replace")

    def memory_bytes(self) -> tuple[int, int]:
        """Bytes of memory that are free now, and of all memory."""
        free, total = c_size_t(), c_size_t()
        self.activate()
        self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def settle(self) -> bool:
        """Wait for all work of the GPU, after errors and at the end only; False if it failed."""
        try:
            self.activate()
            self.synchronize()
        except CudaCallError:
            return False
        return True

    def synchronize(self, where: str = "") -> None:
        """Wait for all work of the GPU's context, and for captures of other threads."""
        with self.alone:
            self.driver.call("cuCtxSynchronize", where=where)

    def close(self) -> None:
        """Release the context; may be called twice."""
        if self._context is not None:
            self._context = None
            self.driver.call("cuDevicePrimaryCtxRelease_v2", self._device)

    def _attribute(self, attribute: _Attribute) -> int:
        return self.driver.integer("cuDeviceGetAttribute", int(attribute), self._device)


class CudaHandles:
    """Streams, events and other handles that go together; closing destroys them, last made first.

    A handle that cannot be destroyed does not stop the rest. A context manager. Every
    method raises CudaCallError where the driver refuses.
    """

    def __init__(self, device: CudaDevice) -> None:
        self._device = device
        self._undo = contextlib.ExitStack()
        device.activate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def stream(self) -> int:
        """The handle of a new stream."""
        return self.make("cuStreamCreate", _NON_BLOCKING, undo="cuStreamDestroy_v2")

    def event(self, *, timing: bool = False) -> int:
        """Handle of a new event, which takes the time if wanted."""
        return self.make("cuEventCreate", 0 if timing else _NO_TIMING, undo="cuEventDestroy_v2")

    def make(self, function: str, *arguments: int, undo: str, where: str = "") -> int:
        """Handle that one function of the driver makes and another destroys."""
        handle = self._device.driver.make(function, *arguments, where=where)
        self.later(self._device.driver.call, undo, handle)
        return handle

    def later(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function at the end, before those that were handed in earlier."""
        self._undo.callback(function, *arguments)

    def close(self) -> None:
        """Destroy all handles; may be called twice."""
        with self._undo:
            self._device.activate()


def elapsed_ns(device: CudaDevice, stream: int, number: int, issue: Callable[[], object]) -> int:
    """Nanoseconds between two events around work that is issued to a stream a number of times."""
    call = device.driver.call
    with CudaHandles(device) as handles:
        begin, end = handles.event(timing=True), handles.event(timing=True)
        call("cuEventRecord", begin, stream, where=_TIMED)
        for _ in range(number):
            issue()
        call("cuEventRecord", end, stream, where=_TIMED)
        call("cuEventSynchronize", end, where=_TIMED)
        return event_ns(device.driver, begin, end)


def event_ns(driver: CudaDriver, begin: int, end: int) -> int:
    """Nanoseconds between two complete events."""
    elapsed_ms = c_float()
    driver.call("cuEventElapsedTime", ctypes.byref(elapsed_ms), begin, end)
    return round(elapsed_ms.value * 1e6)


def require_arch(facts: DeviceFacts, arch: str) -> None:
    """Refuse code for another GPU: ``sm_90`` needs 9.0 or newer, ``sm_90a`` exactly 9.0."""
    digits = arch.removeprefix("sm_").rstrip("af")
    needed = (int(digits[:-1]), int(digits[-1]))
    exact = not arch[-1].isdigit()
    if facts.compute_capability < needed or (exact and facts.compute_capability != needed):
        raise HostError(
            f"the kernels are for {arch}, but {facts.name} is {facts.arch}; "
            f"compile them for target 'cuda -arch={facts.arch}'"
        )
