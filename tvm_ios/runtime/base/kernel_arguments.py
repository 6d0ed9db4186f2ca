"""Prepared kernel calls, over memory we own, in the form that ``tvm_abi.py`` says.

Kernels take pointers to tensors; a :class:`TensorTable` holds one per tensor of a plan, and can
be pointed at other memory later without touching the prepared calls.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import c_int32, c_int64, c_void_p
from dataclasses import dataclass, replace

from tvm_ios.plan.plan import ExecutionPlan, Launch
from tvm_ios.runtime.base.native_runtime import NativeLaunch
from tvm_ios.runtime.base.tvm_abi import TENSOR_CODE, DLTensor

__all__ = [
    "Kernel",
    "PreparedLaunches",
    "TensorTable",
]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel in memory: its address, and how it is called."""

    address: int
    resource: int = 0
    """Resource handle that the kernel is called with."""
    serial: bool = False
    """True keeps the kernel's parallel regions on one lane, as barriers inside regions demand."""

    def on_one_lane(self, wanted: bool) -> Kernel:
        """A copy that stays on one lane if wanted or if it did so before."""
        return replace(self, serial=self.serial or wanted)


class TensorTable:
    """``DLTensor`` structures for all tensors of a plan, given the address of every buffer.

    ``device`` has DLPack's type and number of the buffers' device; the CPU where omitted.
    """

    def __init__(
        self, plan: ExecutionPlan, addresses: Mapping[int, int], device: tuple[int, int] = (1, 0)
    ) -> None:
        self._plan = plan
        self._tensors = (DLTensor * len(plan.tensors))()
        extents = [extent for tensor in plan.tensors for extent in tensor.shape]
        self._shapes = (c_int64 * (len(extents) or 1))(*extents)
        self._by_buffer: dict[int, list[int]] = {}
        cursor = ctypes.addressof(self._shapes)
        for index, tensor in enumerate(plan.tensors):
            self._tensors[index].describe(tensor.dtype, len(tensor.shape), cursor, device)
            cursor += 8 * len(tensor.shape)
            self._by_buffer.setdefault(tensor.buffer, []).append(index)
        for buffer, address in addresses.items():
            self.place(buffer, address)

    def place(self, buffer: int, address: int) -> None:
        """Point every tensor of a buffer at memory that begins at `address`."""
        for index in self._by_buffer.get(buffer, ()):
            # Generated kernels refuse a tensor whose `byte_offset` is not 0, so the address has it.
            self._tensors[index].data = address + self._plan.tensors[index].byte_offset

    def address(self, tensor: int) -> int:
        """Address of the ``DLTensor`` of a tensor."""
        return ctypes.addressof(self._tensors) + tensor * ctypes.sizeof(DLTensor)

    def data(self, tensor: int) -> int:
        """Address of the first byte of a tensor."""
        return self._tensors[tensor].data or 0


class PreparedLaunches:
    """Argument lists for launches, ready to be called from C; they keep the table alive."""

    def __init__(
        self, launches: Sequence[Launch], kernels: Sequence[Kernel], table: TensorTable
    ) -> None:
        arguments = [
            table.address(tensor)
            for launch in launches
            for tensor in (*launch.inputs, *launch.outputs)
        ]
        # Every argument is a tensor, so all launches share one array of type codes.
        longest = max((len(a.inputs) + len(a.outputs) for a in launches), default=0)
        self._kept = table
        self._arguments = (c_void_p * (len(arguments) or 1))(*arguments)
        self._codes = (c_int32 * (longest or 1))(*[TENSOR_CODE] * longest)
        self._launches = (NativeLaunch * (len(launches) or 1))()
        cursor = ctypes.addressof(self._arguments)
        for native, launch, kernel in zip(self._launches, launches, kernels, strict=False):
            native.kernel = kernel.address
            native.arguments = cursor
            native.type_codes = ctypes.addressof(self._codes)
            native.resource = kernel.resource or None
            native.num_arguments = len(launch.inputs) + len(launch.outputs)
            native.serial = kernel.serial
            cursor += 8 * native.num_arguments

    def address(self, index: int) -> int:
        """Address of the native form of a launch."""
        return ctypes.addressof(self._launches) + index * ctypes.sizeof(NativeLaunch)
