"""Prices stages on a GPU: chosen operators as a CUDA graph, every tensor in bytes of its own.

A stage is a small plan over the tensors of its network, so what runs networks runs it too: first on
streams, then captured, from then on replayed and timed by events.

Replays follow each other, so what a stage reads lies in the L2 cache if it fits there. In a network
that is so for activations, which the stage before has just written, but not for weights where all
of them together outgrow the cache: such prices are too low, for all candidates alike.
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
from tvm_ios.runtime.cuda_device import CudaDevice
from tvm_ios.runtime.cuda_graphs import CudaGraphExecutor
from tvm_ios.runtime.cuda_memory import CudaMemory
from tvm_ios.runtime.cuda_streams import CudaStreamExecutor
from tvm_ios.runtime.cudnn_convolution import CudnnCall
from tvm_ios.runtime.cudnn_device import CudnnDevice
from tvm_ios.runtime.kernel_library import KernelLibrary
from tvm_ios.runtime.lower import lower_plan
from tvm_ios.runtime.native_runtime import shared_runtime
from tvm_ios.runtime.placement import ConcatView, Placement, SliceView
from tvm_ios.runtime.plan import ExecutionPlan, Group, Launch
from tvm_ios.runtime.sample_inputs import sample_tensor
from tvm_ios.runtime.stage_runner import find_library

__all__ = ["CudaStage", "CudaStageRunner", "stage_plan"]

WAKE_S = 0.1
"""A GPU that was idle takes about as long to reach its clocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Library:
    plan: ExecutionPlan
    kernels: KernelLibrary
    memory: CudaMemory
    position: Mapping[int, int]
    """Launch of each operator that still has one."""
    num_operators: int
    cudnn: CudnnDevice | None = None
    """What computes some of its launches."""


class CudaStage:
    """A prepared stage; what it holds on the GPU is freed when the last reference goes."""

    def __init__(self, executor: CudaGraphExecutor | None, copies: int) -> None:
        self.executor = executor
        """None where no operator of the stage needs a kernel."""
        self.copies = copies
        """The graph holds the stage so many times."""
        self.operators = (
            ()
            if executor is None
            else tuple(launch.operator for launch in executor.plan.launches)[
                : len(executor.plan.launches) // copies
            ]
        )
        """Operators that are launched, of one copy."""
        self.close = weakref.finalize(self, _nothing if executor is None else executor.close)


class CudaStageRunner:
    """Runs stages of built libraries on a GPU, to measure them.

    Parameters
    ----------
    streams
        Most streams of a stage.
    device
        The GPU; it has to outlive the runner.
    """

    def __init__(self, streams: int, device: CudaDevice) -> None:
        self.lanes = streams
        self._device = device
        self._libraries: list[_Library] = []
        self._open: weakref.WeakSet[CudaStage] = weakref.WeakSet()
        self._fallbacks: list[str] = []
        self._awake = False

    def add_library(
        self,
        path: str | Path,
        graph_json: str,
        params: Mapping[str, Any],
        views: Sequence[SliceView | ConcatView | None],
    ) -> int:
        """Load an exported library and give each of its tensors memory of its own.

        Parameters
        ----------
        path
            What ``export_library`` wrote.
        graph_json
            Its graph.
        params
            Parameters by name; every other tensor starts as small random numbers.
        views
            One for every ``tvm_op`` node; taken where legal.

        Returns
        -------
        library
            Number to name it in :meth:`prepare`.

        Raises
        ------
        CostError
            If there is too little memory on the GPU.
        """
        places = [Placement(stage=index, group=0, view=view) for index, view in enumerate(views)]
        plan = lower_plan(graph_json, places, lanes=self.lanes, reuse=False)
        try:
            memory = CudaMemory(plan, params, self._device)
            _fill(memory, params)
        except ExecutionError as error:
            raise CostError(f"stages cannot be priced: {error}") from error
        self._libraries.append(
            _Library(
                plan=plan,
                kernels=KernelLibrary(Path(path), shared_runtime()),
                memory=memory,
                position={
                    launch.operator_index: number for number, launch in enumerate(plan.launches)
                },
                num_operators=len(places),
            )
        )
        return len(self._libraries) - 1

    def with_cudnn(self, library: int, calls: Mapping[int, CudnnCall], cudnn: CudnnDevice) -> int:
        """A second number for a library: by it, some operators are computed by cuDNN.

        Both numbers stand for the same tensors, so a stage may mix them.

        Parameters
        ----------
        library
            Number of the library.
        calls
            By operator.
        cudnn
            cuDNN on the same GPU; it has to outlive the runner.
        """
        base = self._libraries[library]
        first = len(base.plan.launches)
        added = [
            replace(launch, cudnn=calls[launch.operator_index])
            for launch in base.plan.launches
            if launch.operator_index in calls
        ]
        places = {launch.operator_index: first + number for number, launch in enumerate(added)}
        self._libraries.append(
            replace(
                base,
                plan=replace(base.plan, launches=(*base.plan.launches, *added)),
                position={**base.position, **places},
                cudnn=cudnn,
            )
        )
        return len(self._libraries) - 1

    def needs_no_kernel(self, library: int, operator: int) -> bool:
        """Whether an operator became a view, so running it costs nothing."""
        return operator not in self._library(library, operator).position

    def prepare(
        self,
        groups: Sequence[Sequence[tuple[int, int]]],
        *,
        unsplit: Collection[tuple[int, int]] = (),  # noqa: ARG002 - a GPU has no idle lanes
        homes: Sequence[int] | None = None,
        copies: int = 1,
    ) -> CudaStage:
        """Capture concurrent groups.

        Parameters
        ----------
        groups
            For each group the (library, operator) pairs in the order they run, all of one library
            under either of its numbers. An operator that became a view costs nothing.
        unsplit
            Not read.
        homes
            The stream of each group; by turns where omitted.
        copies
            The graph holds the stage this many times, each copy after the one before, as stages
            follow each other in a network: with no start of a graph between.

        Raises
        ------
        CostError
            If a library or operator does not exist, or the stage cannot be run.
        """
        used = {pair[0]: self._library(*pair) for group in groups for pair in group}
        if len({id(library.memory) for library in used.values()}) > 1:
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
            return CudaStage(None, 1)
        # The launches of the second number begin with those of the first.
        library = max(used.values(), key=lambda library: len(library.plan.launches))
        plan = stage_plan(library.plan, rows, lanes, copies=copies)
        try:
            return self._captured(plan, library, copies)
        except ExecutionError as error:
            raise CostError(f"a stage cannot be priced: {error}") from error

    def time_ns(self, handle: CudaStage, number: int) -> int:
        """Nanoseconds of `number` runs of a stage, the order between them included.

        Whole graphs are run, so the time of as many copies as come nearest is scaled.

        Raises
        ------
        CostError
            If a kernel fails, or the runner is closed.
        """
        if handle.executor is None:
            return 0
        runs = max(1, round(number / handle.copies))
        try:
            elapsed_ns = handle.executor.time_ns(runs)
        except ExecutionError as error:
            raise CostError(f"a stage cannot be priced: {error}") from error
        return round(elapsed_ns * number / (runs * handle.copies))

    def ping_pong_ns(self) -> float:
        """0: streams have no hand-off that is slower at times."""
        return 0.0

    def notes(self) -> tuple[str, ...]:
        """Whether stages were priced on streams, as they cannot be captured."""
        if not self._fallbacks:
            return ()
        return (
            f"{len(self._fallbacks)} stages were priced on streams, not as CUDA graphs: "
            f"{self._fallbacks[0]}",
        )

    def close(self) -> None:
        """Free everything; may be called twice."""
        for stage in list(self._open):
            stage.close()
        for library in self._libraries:
            library.memory.release()

    def _captured(self, plan: ExecutionPlan, library: _Library, copies: int) -> CudaStage:
        streams = CudaStreamExecutor(
            plan, library.kernels, library.memory, self._device, library.cudnn
        )
        executor = CudaGraphExecutor(streams, library.memory)
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

    def _library(self, number: int, operator: int) -> _Library:
        return find_library(self._libraries, number, operator)


def stage_plan(
    plan: ExecutionPlan, rows: Sequence[Sequence[int]], lanes: Sequence[int], *, copies: int
) -> ExecutionPlan:
    """A plan that runs some launches of another, again and again, over the same tensors.

    Parameters
    ----------
    plan
        Where the launches are from.
    rows
        Launches of each concurrent group, in the order they run.
    lanes
        The lane of each group.
    copies
        So many times; a copy waits for the one before.
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
    """Give every tensor but the parameters values: uninitialised memory may hold anything."""
    plan, random = memory.plan, np.random.default_rng(0)
    arena = np.zeros(plan.arena_bytes, "uint8")
    for tensor in plan.tensors:
        begin = plan.buffers[tensor.buffer].arena_offset
        if begin is not None:
            begin += tensor.byte_offset
            data = sample_tensor(random, tensor.shape, tensor.dtype).tobytes()
            arena[begin : begin + len(data)] = np.frombuffer(data, "uint8")
    memory.fill_arena(arena)
    for entry in plan.inputs:
        if entry.name not in params:
            tensor = plan.tensors[entry.tensor]
            memory.array(entry.tensor).copyfrom(sample_tensor(random, tensor.shape, tensor.dtype))


def _nothing() -> None:
    """A stage of views holds nothing."""
