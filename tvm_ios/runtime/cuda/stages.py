"""Prices of stages on a GPU: chosen operators as a CUDA graph, every tensor in its own bytes.

A stage is a small plan over the tensors of its network, so the executors of networks run it, too:
first on streams, then captured, from then on replayed and timed by events.

Replays follow each other, so the data of a stage lie in the L2 cache if they fit there. In a
network that is so for activations, which the stage before has just written. It is not so for
weights that together outgrow the cache: such prices are too low, for all candidates alike.
"""

from __future__ import annotations

import time
import warnings
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tvm_ios.errors import CostError, ExecutionError
from tvm_ios.plan.plan import ExecutionPlan, Group, Launch
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.native_runtime import shared_runtime
from tvm_ios.runtime.base.sample_inputs import sample_tensor
from tvm_ios.runtime.cuda.device import CudaDevice
from tvm_ios.runtime.cuda.graphs import CudaGraphExecutor
from tvm_ios.runtime.cuda.memory import CudaMemory
from tvm_ios.runtime.cuda.streams import CudaStreamExecutor
from tvm_ios.runtime.libraries.open_libraries import OpenLibraries
from tvm_ios.runtime.libraries.stage_libraries import LibraryStageRunner, PreparedStage

__all__ = ["CudaStage", "CudaStageRunner", "stage_plan"]

WAKE_S = 0.1
"""Seconds of work before timing: an idle GPU takes about as long to reach its clocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnGpu:
    """A library on the GPU: its kernels, and memory for its tensors."""

    kernels: KernelLibrary
    memory: CudaMemory
    libraries: OpenLibraries | None = None
    """Operator libraries that compute some of its launches."""


class CudaStage(PreparedStage):
    """A stage as a CUDA graph; what it holds on the GPU is freed when the last reference goes."""

    def __init__(self, executor: CudaGraphExecutor, copies: int) -> None:
        launches = executor.plan.launches
        operators = [launch.operator for launch in launches[: len(launches) // copies]]
        super().__init__(executor.time_ns, operators, copies=copies)
        self.close = weakref.finalize(self, executor.close)


class CudaStageRunner(LibraryStageRunner[_OnGpu]):
    """Maker of stages of built libraries on a GPU, to measure them.

    A stage has at most ``streams`` streams; the device has to outlive the runner.
    """

    def __init__(self, streams: int, device: CudaDevice) -> None:
        super().__init__()
        self._streams = streams
        self._device = device
        self._open: weakref.WeakSet[CudaStage] = weakref.WeakSet()
        self._fallbacks: list[str] = []
        self._awake = False

    @property
    def lanes(self) -> int:
        """Largest number of streams of a stage."""
        return self._streams

    def prepare(
        self,
        groups: Sequence[Sequence[tuple[int, int]]],
        *,
        unsplit: Collection[tuple[int, int]] = (),  # noqa: ARG002 - a GPU has no idle lanes
        homes: Sequence[int] | None = None,
        copies: int = 1,
    ) -> PreparedStage:
        """Make a stage ready as a CUDA graph; `unsplit` is not read.

        A stage has operators of one library, under any of its numbers.
        """
        used = {pair[0]: self._library(*pair) for group in groups for pair in group}
        if len({id(library.load()) for library in used.values()}) > 1:
            raise CostError(
                f"a stage has operators of libraries {sorted(used)}; price them by themselves"
            )
        rows: list[list[int]] = []
        lanes: list[int] = []
        for place, group in enumerate(groups):
            positions = [self._library(*pair).position.get(pair[1]) for pair in group]
            row = [position for position in positions if position is not None]
            if row:
                rows.append(row)
                lanes.append((len(lanes) if homes is None else homes[place]) % self.lanes)
        if not rows:
            return PreparedStage(lambda _runs: 0, ())
        library = next(iter(used.values()))
        plan = stage_plan(library.plan, rows, lanes, copies=copies)
        try:
            return self._captured(plan, library.load(), copies)
        except ExecutionError as error:
            raise CostError(f"a stage cannot be priced: {error}") from error

    def ping_pong_ns(self) -> float:
        """Return 0: streams have no hand-off between cores."""
        return 0.0

    def notes(self) -> tuple[str, ...]:
        """A line about the stages that were priced on streams because they cannot be captured."""
        if not self._fallbacks:
            return ()
        return (
            f"{len(self._fallbacks)} stages were priced on streams, not as CUDA graphs: "
            f"{self._fallbacks[0]}",
        )

    def close(self) -> None:
        """Free all stages and the memory of their libraries; may be called twice."""
        for stage in list(self._open):
            stage.close()
        for loaded in self._loaded:
            loaded.memory.release()

    def _load(
        self,
        path: Path,
        plan: ExecutionPlan,
        params: Mapping[str, Any],
        libraries: OpenLibraries | None,
    ) -> _OnGpu:
        memory = CudaMemory(plan, params, self._device)
        _fill(memory, params)
        kernels = KernelLibrary(path, shared_runtime())
        return _OnGpu(kernels=kernels, memory=memory, libraries=libraries)

    def _captured(self, plan: ExecutionPlan, loaded: _OnGpu, copies: int) -> CudaStage:
        streams = CudaStreamExecutor(
            plan, loaded.kernels, loaded.memory, self._device, loaded.libraries
        )
        executor = CudaGraphExecutor(streams, loaded.memory)
        stage = CudaStage(executor, copies)
        self._open.add(stage)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # kept, and told once
                executor.time_ns(1)
        except BaseException:
            stage.close()
            raise
        if executor.fallback is not None:
            self._fallbacks.append(executor.fallback)
        self._wake(executor)
        return stage

    def _wake(self, executor: CudaGraphExecutor) -> None:
        end_s = time.monotonic() + WAKE_S
        while not self._awake and time.monotonic() < end_s:
            executor.time_ns(10)
        self._awake = True


def stage_plan(
    plan: ExecutionPlan, rows: Sequence[Sequence[int]], lanes: Sequence[int], *, copies: int
) -> ExecutionPlan:
    """A plan that runs some launches of another plan several times, over the same tensors.

    A row has the launches of a concurrent group, in the order they run. Each copy waits for the one
    before.
    """
    launches: list[Launch] = []
    groups: list[Group] = []
    for copy in range(copies):
        before = range(len(groups) - len(rows), len(groups)) if copy else ()
        for position, (row, lane) in enumerate(zip(rows, lanes, strict=True)):
            groups.append(
                Group(
                    stage=copy,
                    position=position,
                    launches=tuple(range(len(launches), len(launches) + len(row))),
                    dependencies=tuple(before),
                    lane=lane,
                )
            )
            launches += [plan.launches[number] for number in row]
    return replace(plan, launches=tuple(launches), groups=tuple(groups))


def _fill(memory: CudaMemory, params: Collection[str]) -> None:
    """Give every tensor but the parameters values: uninitialised memory may hold anything.

    Inside the network only floats are drawn, as on a CPU; all else, bfloat16 included, is zero.
    """
    plan, random = memory.plan, np.random.default_rng(0)
    arena = np.zeros(plan.arena_bytes, "uint8")
    for tensor in plan.tensors:
        begin = plan.buffers[tensor.buffer].arena_offset
        if begin is not None and tensor.dtype.startswith("float"):
            begin += tensor.byte_offset
            data = sample_tensor(random, tensor.shape, tensor.dtype).tobytes()
            arena[begin : begin + len(data)] = np.frombuffer(data, "uint8")
    memory.fill_arena(arena)
    for entry in plan.inputs:
        if entry.name not in params:
            tensor = plan.tensors[entry.tensor]
            memory.array(entry.tensor).copyfrom(sample_tensor(random, tensor.shape, tensor.dtype))
