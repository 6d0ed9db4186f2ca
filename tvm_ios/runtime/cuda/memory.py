"""Memory of an executor on a GPU, and the error that says how much of it was wanted."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import tvm

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.plan import BufferKind, ExecutionPlan
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.base.tvm_names import IS_FFI, Array, TvmError
from tvm_ios.runtime.cuda.errors import read_tvm_error
from tvm_ios.runtime.gpu.device import CudaDevice
from tvm_ios.runtime.gpu.driver import call_failed

__all__ = ["CudaMemory", "describe_bytes", "explained"]


class CudaMemory(PlanMemory):
    """GPU memory for the tensors of a plan; parameters that lie elsewhere are copied there.

    Where there is too little, the error has the plan's bytes and what to lower.
    """

    def __init__(self, plan: ExecutionPlan, params: Mapping[str, Any], device: CudaDevice) -> None:
        self._gpu = device
        self._bytes = describe_bytes(plan, params)
        with self._explained():
            super().__init__(plan, params, tvm.cuda(device.ordinal))
            self.device.sync()  # parameters are copied on the default stream

    def array(self, tensor: int) -> Any:
        """The array of an input or output; it shares its bytes with this memory."""
        self._require_held()
        return super().array(tensor)

    def empty(self, tensor: int) -> Any:
        """A new array for an input or output, not yet in use."""
        with self._explained():
            return super().empty(tensor)

    def replace(self, tensor: int, array: Any) -> None:
        """Let an input or output lie in the caller's array from now on."""
        self._require_held()
        super().replace(tensor, array)

    def fill_arena(self, data: np.ndarray) -> None:
        """Overwrite the memory of all intermediate tensors with uint8 of the arena's size."""
        self._require_held()
        if len(data):
            assert isinstance(self._arena, Array)
            self._arena.copyfrom(data)
            self.device.sync()  # the copy is on the default stream

    def release(self) -> None:
        """Let go of all arrays; arrays that callers hold live on."""
        if IS_FFI and not self._gpu.settle():
            # TVM ends the process where it cannot free, before anybody reads why the run failed.
            for array in (self._arena, *self.arrays):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))
        self._arena = None
        self._arrays.clear()

    def _require_held(self) -> None:
        if self._arena is None:
            raise ExecutionError("this executor is closed; load the model again")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        where = f"memory on cuda({self._gpu.ordinal}) for a plan of {self._bytes}"
        with explained(where, "TVM's allocation", self._free_bytes):
            yield

    def _free_bytes(self) -> str:
        free, total = self._gpu.memory_bytes()
        return f"{free:,} of {total:,} bytes are free"


@contextmanager
def explained(where: str, call: str, free: Callable[[], str] | None = None) -> Iterator[None]:
    """Turn an error of TVM's own CUDA calls into one of ours.

    ``where`` is the work that is done, ``call`` TVM's call for it, and ``free`` returns how much
    memory is free: all of them in words.
    """
    try:
        yield
    except TvmError as error:
        failed, name, text = read_tvm_error(str(error), default_call=call)
        if name == "CUDA_ERROR_OUT_OF_MEMORY" and free is not None:
            where += f", {free()}"
        raise call_failed(failed, name=name, text=text, where=where) from None


def describe_bytes(plan: ExecutionPlan, params: Mapping[str, object]) -> str:
    """Bytes of a plan by kind (parameters, inputs, …), as text; ``params`` names its parameters."""
    sizes = dict.fromkeys(("parameters", "inputs"), 0)
    for entry in plan.inputs:
        kind = "parameters" if entry.name in params else "inputs"
        sizes[kind] += plan.tensors[entry.tensor].size_bytes
    outputs = sum(b.size_bytes for b in plan.buffers if b.kind is BufferKind.OUTPUT)
    return (
        f"{sizes['parameters']:,} bytes of parameters, {plan.arena_bytes:,} of intermediate "
        f"tensors and {sizes['inputs'] + outputs:,} of inputs and outputs"
    )
