"""Prices of stages on a GPU: chosen operators as a CUDA graph, every tensor in its own bytes.

A stage is groups of the launches of its library, so the executors of networks run it, too: first
on streams, then captured, from then on replayed and timed by events.

Replays follow each other, so the data of a stage lie in the L2 cache if they fit there. In a
network that is so for activations, which the stage before has just written. It is not so for
weights that together outgrow the cache: such prices are too low, for all candidates alike.
"""

from __future__ import annotations

import time
import warnings
import weakref
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tvm_ios.errors import CostError
from tvm_ios.plan.plan import Group
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.loaded_plan import LoadedPlan
from tvm_ios.runtime.base.native_runtime import shared_runtime
from tvm_ios.runtime.base.sample_inputs import sample_tensor
from tvm_ios.runtime.cuda.graphs import CudaGraphExecutor
from tvm_ios.runtime.cuda.memory import CudaMemory
from tvm_ios.runtime.cuda.streams import CudaStreamExecutor
from tvm_ios.runtime.gpu.device import CudaDevice
from tvm_ios.runtime.libraries.stage_libraries import (
    LibraryStageRunner,
    PreparedStage,
    StageLaunch,
    StageLibrary,
)

__all__ = ["CudaStageRunner", "stage_groups"]

WAKE_S = 0.1
"""Seconds of work before timing: an idle GPU takes about as long to reach its clocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnGpu:
    """A library on the GPU: its kernels, and launches over memory for its tensors."""

    kernels: KernelLibrary
    memory: CudaMemory
    launches: LoadedPlan


class CudaStageRunner(LibraryStageRunner[_OnGpu]):
    """Maker of stages of built libraries on a GPU, to measure them; `unsplit` is not read.

    A stage has operators of one library, under any of its numbers, and at most ``streams`` streams.
    The device has to outlive the runner.
    """

    def __init__(self, streams: int, device: CudaDevice) -> None:
        super().__init__()
        self._streams = streams
        self._device = device
        self._open: list[weakref.finalize[..., PreparedStage]] = []
        """Closing function of each stage; called when its last reference goes, too."""
        self._fallbacks: list[str] = []
        self._awake = False

    @property
    def lanes(self) -> int:
        """Largest number of streams of a stage."""
        return self._streams

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
        for close in self._open:
            close()
        for loaded in self._loaded.values():
            loaded.memory.release()

    def _load(self, library: StageLibrary) -> _OnGpu:
        memory = CudaMemory(library.plan, library.params, self._device)
        _fill(memory, library.params)
        kernels = KernelLibrary(library.export(), shared_runtime())
        launches = memory.load(kernels.runtime, library.plan)
        return _OnGpu(kernels=kernels, memory=memory, launches=launches)

    def _stage(
        self, rows: Sequence[Sequence[StageLaunch]], lanes: Sequence[int], copies: int
    ) -> PreparedStage:
        launches = [each for row in rows for each in row]
        library, *others = {each.library for each in launches}
        if others:
            raise CostError(f"a stage has operators of {1 + len(others)} libraries; price each")
        loaded = self.loaded(library)
        groups = stage_groups(
            [[each.position for each in row] for row in rows],
            [lane % self.lanes for lane in lanes],
            copies=copies,
        )
        streams = CudaStreamExecutor(
            replace(library.plan, groups=groups),
            loaded.kernels,
            loaded.launches,
            self._device,
            library.libraries,
        )
        executor = CudaGraphExecutor(streams, loaded.memory)
        stage = PreparedStage(
            executor.time_ns, (each.launch.operator for each in launches), copies=copies
        )
        close = weakref.finalize(stage, executor.close)
        self._open.append(close)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # kept, and told once
                executor.time_ns(1)
        except BaseException:
            close()
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


def stage_groups(
    rows: Sequence[Sequence[int]], lanes: Sequence[int], *, copies: int
) -> tuple[Group, ...]:
    """Groups that run some launches of a plan several times; each copy waits for the one before.

    A row has the launches of a concurrent group, in the order they run.
    """
    count = len(rows)
    return tuple(
        Group(
            stage=copy,
            position=position,
            launches=tuple(row),
            dependencies=tuple(range(count * (copy - 1), count * copy)) if copy else (),
            lane=lane,
        )
        for copy in range(copies)
        for position, (row, lane) in enumerate(zip(rows, lanes, strict=True))
    )


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
