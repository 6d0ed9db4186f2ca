"""Execution of a whole plan on a device of an RPC tracker."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import tvm

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.data_type import numpy_dtype
from tvm_ios.plan.plan import ExecutionPlan, PlanInput
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.base.input_value import input_value, output_tensor
from tvm_ios.runtime.cpu.lane_executor import LaneExecutor
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls
from tvm_ios.runtime.rpc.kernels import RemoteKernels, addresses_of, load_there
from tvm_ios.runtime.rpc.lanes import RemotePool

__all__ = ["RemoteExecutor"]


class RemoteExecutor(LaneExecutor):
    """A model on a device, to be timed; a context manager.

    Its large parameters are made-up numbers unless they are set (see
    :class:`~tvm_ios.runtime.rpc.kernels.RemoteKernels`), and so are its outputs then.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        kernels: RemoteKernels,
        *,
        lanes: int | None = None,
        calls: LaunchCalls | None = None,
    ) -> None:
        pool = RemotePool(kernels.runtime, plan.lanes if lanes is None else lanes)
        loaded, kept = load_there(kernels.runtime, plan, kernels, calls)
        super().__init__(plan, pool, loaded, calls=calls, kept=kept)
        self._kernels = kernels
        self._connection = kernels.runtime.connection
        self._addresses = addresses_of(loaded, plan, self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def set_input(self, name: str, value: Any) -> None:
        """Copy a value into an input, or a parameter that models of these kernels share."""
        entry = self._find(name)
        tensor = self.plan.tensors[entry.tensor]
        array = input_value(f"input {name!r}", tensor, value)
        data = array.numpy() if isinstance(array, tvm.nd.NDArray) else array
        self._connection.write(self._addresses[entry.tensor], data.tobytes())
        self._kernels.written(name)

    def get_num_outputs(self) -> int:
        """Number of outputs."""
        return len(self.plan.outputs)

    def get_output(self, index: int) -> np.ndarray:
        """An output by number, copied from the device."""
        number = output_tensor(self.plan, index)
        tensor = self.plan.tensors[number]
        data = self._connection.read(self._addresses[number], tensor.size_bytes)
        return np.frombuffer(data, dtype=numpy_dtype(tensor.dtype)).reshape(tensor.shape)

    def trace(self, runs: int | None = None) -> list[TraceEvent]:  # noqa: ARG002 - others run for it
        """Return no events: times of single launches stay on the device."""
        return []

    def _find(self, name: str) -> PlanInput:
        for entry in self.plan.inputs:
            if entry.name == name:
                return entry
        raise ExecutionError(f"no input {name!r}; there are {len(self.plan.inputs)}")
