"""The memory of one executor: inputs, parameters and outputs as TVM arrays, and the arena."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import tvm

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.plan import ALIGNMENT_BYTES, BufferKind, ExecutionPlan
from tvm_ios.runtime.base.host_memory import HUGE_PAGE_BYTES, allocate_pages, collapse_pages
from tvm_ios.runtime.base.loaded_plan import LoadedPlan
from tvm_ios.runtime.base.native_runtime import NativeRuntime
from tvm_ios.runtime.base.tvm_names import (
    CPU_TYPE,
    data_address,
    device_place,
    empty,
    in_words,
)

__all__ = ["PlanMemory"]


class PlanMemory:
    """Memory for the tensors of a plan, on the CPU where no device is given.

    Parameters that lie on the device are used, not copied.
    """

    def __init__(self, plan: ExecutionPlan, params: Mapping[str, Any], device: Any = None) -> None:
        self.plan = plan
        self.device = tvm.cpu() if device is None else device
        self.generation = 0
        """Number of arrays replaced so far; where it differs, addresses differ."""
        self._arena, self._base = self._allocate_arena()
        self._arrays: dict[int, Any] = {}
        for entry in plan.inputs:
            tensor = plan.tensors[entry.tensor]
            array = params.get(entry.name)
            if array is None or not self._fits(array):
                array = self.empty(entry.tensor)
                if entry.name in params:
                    params[entry.name].copyto(array)
            self._arrays[tensor.buffer] = array
        for index in plan.outputs:
            tensor = plan.tensors[index]
            if plan.buffers[tensor.buffer].kind is BufferKind.OUTPUT:
                self._arrays.setdefault(tensor.buffer, self.empty(index))
        self._addresses = {buffer: data_address(array) for buffer, array in self._arrays.items()}
        if self._on_host:
            bound = [plan.tensors[entry.tensor] for entry in plan.inputs if entry.name in params]
            places = [(self._addresses[tensor.buffer], tensor.size_bytes) for tensor in bound]
            if sum(size for _, size in places) >= HUGE_PAGE_BYTES:
                collapse_pages((begin, begin + size) for begin, size in places)
        self._loaded: weakref.WeakSet[LoadedPlan] = weakref.WeakSet()

    def load(self, runtime: NativeRuntime, plan: ExecutionPlan) -> LoadedPlan:
        """A plan over these tensors, loaded into native code; it follows arrays that are replaced.

        The memory has to outlive it.
        """
        place = device_place(self.device)
        loaded = LoadedPlan(runtime, plan, self._addresses, place, arena=self._base)
        self._loaded.add(loaded)
        return loaded

    def data(self, tensor: int) -> int:
        """Address of the first byte of a tensor."""
        wanted = self.plan.tensors[tensor]
        offset = self.plan.buffers[wanted.buffer].arena_offset
        begin = self._addresses[wanted.buffer] if offset is None else self._base + offset
        return begin + wanted.byte_offset

    def empty(self, tensor: int) -> Any:
        """A new array for an input or output, not yet in use."""
        wanted = self.plan.tensors[tensor]
        return empty(wanted.shape, wanted.dtype, self.device)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays of inputs, parameters and outputs that are in use now."""
        return tuple(self._arrays.values())

    def array(self, tensor: int) -> Any:
        """The array of an input or output; it shares its bytes with this memory."""
        wanted = self.plan.tensors[tensor]
        array = self._arrays[wanted.buffer]
        if tuple(array.shape) == wanted.shape:
            return array
        return array._create_view(wanted.shape)  # noqa: SLF001 - TVM offers no public one

    def is_shared(self, output: int) -> bool:
        """True if an output lies in an input, a parameter, or the memory of another output."""
        buffers = [self.plan.tensors[tensor].buffer for tensor in self.plan.outputs]
        buffer = self.plan.tensors[output].buffer
        kind = self.plan.buffers[buffer].kind
        return kind is BufferKind.INPUT or buffers.count(buffer) > 1

    def replace(self, tensor: int, array: Any) -> None:
        """Let an input or output lie in the caller's array from now on."""
        self.require_fit(tensor, array)
        buffer = self.plan.tensors[tensor].buffer
        self._arrays[buffer] = array
        self._addresses[buffer] = data_address(array)
        for loaded in self._loaded:
            loaded.place(buffer, data_address(array))
        self.generation += 1

    def require_fit(self, tensor: int, array: Any) -> None:
        """Refuse an array that an input or output could not lie in; raises ExecutionError."""
        wanted = self.plan.tensors[tensor]
        if tuple(array.shape) != wanted.shape or array.dtype != wanted.dtype:
            raise ExecutionError(
                f"a zero-copy array is {array.dtype}{tuple(array.shape)}, but "
                f"{wanted.dtype}{wanted.shape} is needed; convert it first"
            )
        if not self._fits(array):
            raise ExecutionError(
                f"a zero-copy array lies on {array.device} at address {data_address(array):#x}; it "
                f"must lie on {self.device} at a multiple of {ALIGNMENT_BYTES}, as "
                f"{in_words('tvm.nd.empty')} gives it"
            )

    @property
    def _on_host(self) -> bool:
        return device_place(self.device)[0] == CPU_TYPE

    def _fits(self, array: Any) -> bool:
        return array.device == self.device and data_address(array) % ALIGNMENT_BYTES == 0

    def _allocate_arena(self) -> tuple[object, int]:
        size = self.plan.arena_bytes
        if self._on_host:
            return allocate_pages(size)
        array = empty((max(size, 1),), "uint8", self.device)
        return array, data_address(array)
