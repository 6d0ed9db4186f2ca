"""Execution of a whole plan on a device of an RPC tracker, the twin of the lane executor."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import tvm

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.data_type import numpy_dtype
from tvm_ios.plan.plan import ExecutionPlan, PlanInput
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.base.input_value import input_value, output_tensor
from tvm_ios.runtime.base.lane_pool import LaunchFailedError
from tvm_ios.runtime.rpc.kernels import RemoteKernels
from tvm_ios.runtime.rpc.lanes import RemoteLanes

__all__ = ["RemoteExecutor"]


class RemoteExecutor:
    """A model on a device, to be timed; a context manager.

    Its large parameters are made-up numbers unless they are set (see
    :class:`~tvm_ios.runtime.rpc.kernels.RemoteKernels`), and so are its outputs then.
    """

    def __init__(
        self, plan: ExecutionPlan, kernels: RemoteKernels, *, lanes: int | None = None
    ) -> None:
        self.plan = plan
        self._connection = kernels.connection
        self._lanes = RemoteLanes(self._connection, plan.lanes if lanes is None else lanes)
        self._addresses, memory = kernels.place(plan)
        self._loaded = kernels.load(plan, self._addresses, memory)
        self._program = self._lanes.plan_program(self._loaded)

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
        self._connection.write(self._address(entry.tensor), data.tobytes())

    def get_output(self, index: int) -> np.ndarray:
        """An output by number, copied from the device."""
        number = output_tensor(self.plan, index)
        tensor = self.plan.tensors[number]
        data = self._connection.read(self._address(number), tensor.size_bytes)
        return np.frombuffer(data, dtype=numpy_dtype(tensor.dtype)).reshape(tensor.shape)

    def run(self) -> None:
        """Run every launch of the plan once."""
        self.time_ns(1)

    def time_ns(self, number: int) -> int:
        """Nanoseconds of ``number`` back-to-back runs, by the clock of the device."""
        try:
            return self._lanes.time_ns(self._program, number)
        except LaunchFailedError as failure:
            launch = self.plan.launches[failure.position]
            raise ExecutionError(
                f"operator {launch.operator!r} (kernel {launch.kernel}) failed on "
                f"{self._connection.address.as_text()}: {failure.text.strip() or 'no error text'}"
            ) from None

    def trace(self, runs: int) -> list[TraceEvent]:  # noqa: ARG002 - others run for it
        """Return no events: times of single launches stay on the device."""
        return []

    def ping_pong_ns(self) -> float:
        """Nanoseconds of a core-to-core hand-off between two lanes; 0 with one lane."""
        return self._lanes.ping_pong_ns()

    def close(self) -> None:
        """Join its threads; may be called twice."""
        self._lanes.close()

    def _address(self, number: int) -> int:
        tensor = self.plan.tensors[number]
        return self._addresses[tensor.buffer] + tensor.byte_offset

    def _find(self, name: str) -> PlanInput:
        for entry in self.plan.inputs:
            if entry.name == name:
                return entry
        raise ExecutionError(f"no input {name!r}; there are {len(self.plan.inputs)}")
