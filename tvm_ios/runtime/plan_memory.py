"""The memory of one executor: inputs, parameters and outputs as TVM arrays, and the arena."""

from __future__ import annotations

from collections.abc import Mapping

import tvm

from tvm_ios.errors import ExecutionError
from tvm_ios.runtime.kernel_arguments import TensorTable, allocate_aligned
from tvm_ios.runtime.plan import ALIGNMENT_BYTES, BufferKind, ExecutionPlan

__all__ = ["PlanMemory"]


class PlanMemory:
    """Allocates what a plan needs.

    Parameters
    ----------
    plan
        The plan.
    params
        Parameters by name; their arrays are used, not copied.
    """

    def __init__(self, plan: ExecutionPlan, params: Mapping[str, tvm.nd.NDArray]) -> None:
        self.plan = plan
        self._arena, base = allocate_aligned(plan.arena_bytes)
        self._replaced: list[tvm.nd.NDArray] = []  # a debug program may still name their bytes
        self._arrays: dict[int, tvm.nd.NDArray] = {}
        for entry in plan.inputs:
            tensor = plan.tensors[entry.tensor]
            array = params.get(entry.name)
            if array is None or _address(array) % ALIGNMENT_BYTES:
                array = tvm.nd.empty(tensor.shape, tensor.dtype)
                if entry.name in params:
                    params[entry.name].copyto(array)
            self._arrays[tensor.buffer] = array
        for index in plan.outputs:
            tensor = plan.tensors[index]
            if plan.buffers[tensor.buffer].kind is BufferKind.OUTPUT:
                self._arrays.setdefault(tensor.buffer, tvm.nd.empty(tensor.shape, tensor.dtype))
        addresses = {buffer: _address(array) for buffer, array in self._arrays.items()}
        for number, buffer in enumerate(plan.buffers):
            if buffer.arena_offset is not None:
                addresses[number] = base + buffer.arena_offset
        self.table = TensorTable(plan, addresses)

    def array(self, tensor: int) -> tvm.nd.NDArray:
        """An input or output; it shares its bytes with this memory."""
        wanted = self.plan.tensors[tensor]
        array = self._arrays[wanted.buffer]
        if tuple(array.shape) == wanted.shape:
            return array
        return array._create_view(wanted.shape)  # noqa: SLF001 - TVM offers no public one

    def replace(self, tensor: int, array: tvm.nd.NDArray) -> None:
        """Let an input or output lie in the caller's array from now on.

        Raises
        ------
        ExecutionError
            If the array is of another type, not compact, or not aligned.
        """
        wanted = self.plan.tensors[tensor]
        if tuple(array.shape) != wanted.shape or array.dtype != wanted.dtype:
            raise ExecutionError(
                f"a zero-copy array is {array.dtype}{tuple(array.shape)}, but "
                f"{wanted.dtype}{wanted.shape} is needed; convert it first"
            )
        if array.device.device_type != 1 or _address(array) % ALIGNMENT_BYTES:
            raise ExecutionError(
                f"a zero-copy array lies on {array.device} at address {_address(array):#x}; it "
                f"must lie on cpu at a multiple of {ALIGNMENT_BYTES}, as tvm.nd.empty gives it"
            )
        self._replaced.append(self._arrays[wanted.buffer])
        self._arrays[wanted.buffer] = array
        self.table.place(wanted.buffer, _address(array))


def _address(array: tvm.nd.NDArray) -> int:
    native = array.handle.contents
    return int(native.data or 0) + int(native.byte_offset)
