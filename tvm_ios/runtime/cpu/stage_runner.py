"""Prices of stages: chosen operators run on real lanes, every tensor in bytes of its own.

A program is made in microseconds: kernels are loaded and calls prepared once a library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from tvm_ios.errors import ExecutionError
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LanePool, LaunchFailedError
from tvm_ios.runtime.base.native_runtime import shared_runtime
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.base.sample_inputs import sample_tensor
from tvm_ios.runtime.base.tvm_abi import TvmFunction
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls, host_kernels
from tvm_ios.runtime.libraries.stage_libraries import (
    LibraryStageRunner,
    PreparedStage,
    StageLaunch,
    StageLibrary,
)

__all__ = [
    "Launches",
    "LocalStageLanes",
    "NativeStageRunner",
    "StageCalls",
    "StageLanes",
]


class Launches(Protocol):
    """Prepared kernel calls, one for each launch of a plan."""

    def launch(self, number: int, *, unsplit: bool = False) -> int:
        """Address of a call; with ``unsplit`` of its twin that idle lanes do not help with."""
        ...


@dataclass(frozen=True, slots=True)
class StageCalls:
    """The calls of one library, ready to be put into programs."""

    launches: Launches
    kept: object = None
    """Objects that must live as long as the calls."""
    calls: LaunchCalls | None = None
    """Calls of operator libraries among them; None where no operator library computes."""

    def failure(self, position: int, where: str) -> ExecutionError | None:
        """The error of the launch at a position of the plan, if its operator library failed."""
        return None if self.calls is None else self.calls.failure(position, where)


class StageLanes(Protocol):
    """Lanes that run stages, of this process or of a device of an RPC tracker.

    The methods are those of :class:`~tvm_ios.runtime.base.lane_pool.LanePool`, and ``load``.
    """

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        ...

    def load(self, library: StageLibrary) -> StageCalls:
        """Load an exported library, and prepare the calls of its plan."""
        ...

    def program(
        self,
        groups: Sequence[Sequence[int]],
        successors: Sequence[Iterable[int]],
        *,
        homes: Sequence[int],
    ) -> Any:
        """Prepare groups of launches to run by dependencies, each on its lane if that is free."""
        ...

    def time_ns(self, program: Any, number: int) -> int:
        """Nanoseconds of `number` back-to-back runs; LaunchFailedError where a kernel fails."""
        ...

    def ping_pong_ns(self) -> float:
        """Nanoseconds that a cache line takes between lanes, one way; 0 with one lane."""
        ...

    def close(self) -> None:
        """Join the threads; may be called twice."""
        ...


class NativeStageRunner(LibraryStageRunner[StageCalls]):
    """Maker of stages of built libraries on lanes; closes the lanes with itself."""

    def __init__(self, pool: StageLanes) -> None:
        super().__init__()
        self._pool = pool

    @property
    def lanes(self) -> int:
        """Number of threads, the caller's included."""
        return self._pool.lanes

    def ping_pong_ns(self) -> float:
        """Nanoseconds that a cache line takes between lanes, one way; 0 with one lane."""
        return self._pool.ping_pong_ns()

    def close(self) -> None:
        """Join the threads; may be called twice."""
        self._pool.close()
        for loaded in self._loaded.values():
            if loaded.calls is not None:
                loaded.calls.close()

    def _load(self, library: StageLibrary) -> StageCalls:
        return self._pool.load(library)

    def _stage(
        self, rows: Sequence[Sequence[StageLaunch]], lanes: Sequence[int], copies: int
    ) -> PreparedStage:
        """Program of a stage.

        Several groups change lanes from copy to copy, so their data have to come from another
        core's cache, as in a network.
        """
        count = len(rows)
        addresses = [[self._address(each) for each in row] for row in rows]
        program = self._pool.program(
            addresses * copies,
            [
                range(count * (copy + 1), count * (copy + 2)) if copy + 1 < copies else ()
                for copy in range(copies)
                for _ in rows
            ],
            homes=[lane + (copy if count > 1 else 0) for copy in range(copies) for lane in lanes],
        )
        launches = [each for row in rows for each in row]
        return PreparedStage(
            partial(self._pool.time_ns, program),
            (each.launch.operator for each in launches),
            copies=copies,
            told=partial(self._told, launches),
        )

    def _told(self, launches: Sequence[StageLaunch], error: ExecutionError) -> str:
        """Message for an error of a stage, with the operator that failed."""
        if not isinstance(error, LaunchFailedError):
            return f"a stage cannot be priced: {error}"
        # Positions go on from one copy of the stage to the next.
        failed = launches[error.position % len(launches)]
        where = f"operator {failed.launch.operator!r} failed while its stage was priced"
        of_library = self.loaded(failed.library).failure(failed.position, where)
        return f"{where}: {error.text.strip()}" if of_library is None else str(of_library)

    def _address(self, launch: StageLaunch) -> int:
        launches = self.loaded(launch.library).launches
        return launches.launch(launch.position, unsplit=launch.unsplit)


class LocalStageLanes(LanePool):
    """Lanes of this process that stages are priced on."""

    def __init__(self, lanes: int) -> None:
        self._shared = shared_runtime()
        super().__init__(self._shared, lanes, get_last_error=TvmFunction.LAST_ERROR.address)

    def load(self, library: StageLibrary) -> StageCalls:
        """Load an exported library, and prepare the calls of its plan."""
        plan, params = library.plan, library.params
        memory = PlanMemory(plan, params)
        _fill_tensors(memory, params)
        kernels = KernelLibrary(library.export(), self._shared)
        calls = None if library.libraries is None else LaunchCalls(library.libraries)
        loaded = memory.load(kernels.runtime, plan)
        loaded.bind(host_kernels(plan, kernels, calls))
        return StageCalls(loaded, kept=(kernels, memory), calls=calls)


def _fill_tensors(memory: PlanMemory, params: Collection[str]) -> None:
    """Give every float tensor but the parameters values: fresh memory may hold anything."""
    random, plan = np.random.default_rng(0), memory.plan
    bound = {plan.tensors[entry.tensor].buffer for entry in plan.inputs if entry.name in params}
    for index, tensor in enumerate(plan.tensors):
        if tensor.buffer not in bound and tensor.dtype.startswith("float"):
            data = sample_tensor(random, tensor.shape, tensor.dtype).tobytes()
            ctypes.memmove(memory.data(index), data, len(data))
