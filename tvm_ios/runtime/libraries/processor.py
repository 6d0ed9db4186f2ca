"""A processor that stages are priced on and operator libraries opened: this, or a remote one."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from tvm_ios.host import default_lanes, processor_name
from tvm_ios.plan.data_type import is_float
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.base.convention import CONVENTION
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LanePool
from tvm_ios.runtime.base.loaded_plan import LoadedPlan
from tvm_ios.runtime.base.native_runtime import shared_runtime
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.base.sample_inputs import sample_tensor
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls, host_lane, kernels_of
from tvm_ios.runtime.libraries.protocol import LibraryLane
from tvm_ios.support.c_compiler import NativeSource

__all__ = ["Processor", "ThisProcessor"]


class Processor(Protocol):
    """A CPU that stages are priced on, and operator libraries opened."""

    @property
    def place(self) -> str:
        """Place in messages, such as `` on …``; empty for this process."""
        ...

    @property
    def name(self) -> str:
        """Model and instruction set."""
        ...

    @property
    def cores(self) -> int:
        """Number of cores that lanes may use."""
        ...

    @property
    def lane(self) -> LibraryLane:
        """Any lane of its pools, for calls of operator libraries."""
        ...

    def code(self, source: NativeSource, function: str) -> Any:
        """A C file as a loaded library, like those of ctypes, that has the function."""
        ...

    def pool(self, lanes: int) -> LanePool:
        """A pool of lanes; OptionError if there are fewer cores."""
        ...

    def load(
        self,
        plan: ExecutionPlan,
        params: Mapping[str, Any],
        path: Path | None = None,
        calls: LaunchCalls | None = None,
    ) -> tuple[LoadedPlan, object]:
        """A plan over memory of its own, and what must live as long.

        All floats but parameters are small random numbers. Kernels are those of the exported
        library at the path, if there is one; ``calls`` are made in place of some.
        """
        ...


@dataclass(frozen=True, slots=True)
class ThisProcessor:
    """The processor of this process; a :class:`Processor`."""

    kernels: KernelLibrary | None = None
    """A loaded file that may bring native code of operator libraries along."""
    place: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """Model and instruction set."""
        return processor_name()

    @property
    def cores(self) -> int:
        """Number of cores that this process may use."""
        return default_lanes()

    @property
    def lane(self) -> LibraryLane:
        """Any lane of its pools."""
        return host_lane(shared_runtime())

    def code(self, source: NativeSource, function: str) -> ctypes.CDLL:
        """The code that the kernels bring along, if it has the function; else it is compiled."""
        if self.kernels is not None and hasattr(self.kernels.code, function):
            return self.kernels.code
        return source.library

    def pool(self, lanes: int) -> LanePool:
        """A pool of lanes of this process."""
        runtime = shared_runtime()
        return LanePool(runtime, lanes, get_last_error=CONVENTION.last_error(runtime))

    def load(
        self,
        plan: ExecutionPlan,
        params: Mapping[str, Any],
        path: Path | None = None,
        calls: LaunchCalls | None = None,
    ) -> tuple[LoadedPlan, object]:
        """A plan over memory of this process."""
        memory, library = PlanMemory(plan, params), None
        _fill_tensors(memory, params)
        loaded = memory.load(shared_runtime(), plan)
        if path is not None:
            library = KernelLibrary(path, shared_runtime())
            lane = host_lane(shared_runtime(), library.code)
            loaded.bind(kernels_of(plan, library, calls, lane))
        return loaded, (memory, library)


def _fill_tensors(memory: PlanMemory, params: Collection[str]) -> None:
    """Give every float tensor but the parameters values: fresh memory may hold anything."""
    random, plan = np.random.default_rng(0), memory.plan
    bound = {plan.tensors[entry.tensor].buffer for entry in plan.inputs if entry.name in params}
    for index, tensor in enumerate(plan.tensors):
        if tensor.buffer not in bound and is_float(tensor.dtype):
            data = sample_tensor(random, tensor.shape, tensor.dtype).tobytes()
            ctypes.memmove(memory.data(index), data, len(data))
