"""A plan in native memory: prepared kernel calls, made from the plan's image by C.

``native/plan_loader.h`` makes them. Calls take pointers to tensors, which can be pointed at other
memory later without touching the calls.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Mapping
from ctypes import c_void_p
from dataclasses import dataclass

from tvm_ios.errors import PlanError
from tvm_ios.plan.image import ProgramFacts, image_bytes
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.base.native_runtime import (
    BoundKernel,
    DLTensor,
    NativeLaunch,
    NativeRuntime,
)
from tvm_ios.runtime.base.tvm_names import IS_FFI

__all__ = ["Kernel", "LoadedPlan"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel in memory: its address, and how it is called."""

    address: int
    resource: int = 0
    """Resource handle that the kernel is called with."""
    serial: bool = False
    """True keeps the kernel's parallel regions on one lane, as barriers inside regions demand."""


class LoadedPlan:
    """Launches of a plan with their tensors, ready for programs; freed with the last reference.

    Buffers lie at ``places``, others in the memory at ``arena`` and behind it, which the caller
    keeps alive. ``device`` is DLPack's type and number of their device, the CPU where omitted. Each
    launch that runs needs a kernel.
    """

    def __init__(
        self,
        runtime: NativeRuntime,
        plan: ExecutionPlan,
        places: Mapping[int, int],
        device: tuple[int, int] = (1, 0),
        *,
        arena: int = 0,
    ) -> None:
        self._runtime = runtime
        self._count = len(plan.launches)
        self._buffers = range(len(plan.buffers))
        image = image_bytes(plan, ProgramFacts(is_ffi=IS_FFI))
        self.handle = runtime.plan_load(image, len(image), *device)
        if not self.handle:
            raise PlanError(runtime.failed_text().decode(errors="replace"))
        weakref.finalize(self, _free, runtime, self.handle).atexit = False
        self._launches: int = runtime.plan_launches(self.handle)
        self._tensors: int = runtime.plan_tensors(self.handle)
        self.place_all(places, arena)

    def place_all(self, places: Mapping[int, int], arena: int) -> int:
        """Place all buffers anew; the bytes that the arena needs with what lies behind it."""
        own = (c_void_p * len(self._buffers))(*map(places.get, self._buffers))
        return int(self._runtime.plan_place_all(self.handle, arena, own))

    def place(self, buffer: int, address: int) -> None:
        """Point every tensor of a buffer at memory that begins at `address`."""
        self._runtime.plan_place(self.handle, buffer, address)

    def bind(self, kernels: Iterable[Kernel]) -> None:
        """Give each launch its kernel, in the order of the plan."""
        rows = [BoundKernel(each.address, each.resource, each.serial) for each in kernels]
        self._runtime.plan_bind_all(self.handle, (BoundKernel * self._count)(*rows))

    def bound(self, kernels: Mapping[int, Kernel]) -> ctypes.Array[NativeLaunch]:
        """A copy of the launches in which some have kernels; valid as long as this.

        The launches themselves have these kernels until they get others.
        """
        self.bind(kernels.get(number, Kernel(0)) for number in range(self._count))
        rows = (NativeLaunch * self._count).from_address(self._launches)
        return type(rows).from_buffer_copy(rows)

    def launch(self, number: int, *, unsplit: bool = False) -> int:
        """Address of a launch; with ``unsplit`` of its twin that idle lanes do not help with."""
        row = number + self._count if unsplit else number
        return self._launches + row * ctypes.sizeof(NativeLaunch)

    def tensor(self, number: int) -> int:
        """Address of the ``DLTensor`` of a tensor."""
        return self._tensors + number * ctypes.sizeof(DLTensor)


def _free(runtime: NativeRuntime, handle: int) -> None:
    """Free a plan. A function of its own: its arguments keep the native code loaded."""
    runtime.plan_free(handle)
