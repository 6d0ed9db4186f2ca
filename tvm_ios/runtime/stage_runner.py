"""Prices stages: runs chosen operators on real lanes, every tensor in bytes of its own.

A program is made in microseconds, since kernels are loaded and calls prepared once a library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import tvm

from tvm_ios.errors import CostError, ExecutionError
from tvm_ios.runtime.kernel_arguments import PreparedLaunches, TensorTable, allocate_aligned
from tvm_ios.runtime.kernel_library import KernelLibrary, last_error_address
from tvm_ios.runtime.lane_pool import LaneOptions, LanePool, LaunchFailedError
from tvm_ios.runtime.lower import lower_plan
from tvm_ios.runtime.native_runtime import shared_runtime
from tvm_ios.runtime.placement import ConcatView, Placement, SliceView
from tvm_ios.runtime.plan import BufferKind, ExecutionPlan
from tvm_ios.runtime.sample_inputs import sample_tensor

__all__ = [
    "HoldsOperators",
    "Launches",
    "LibraryStageRunner",
    "NativeStageRunner",
    "StageCalls",
    "StageLanes",
    "StageProgram",
    "find_library",
]


class Launches(Protocol):
    """Prepared kernel calls, one for each launch of a plan."""

    def address(self, index: int) -> int:
        """What a program names the call by."""
        ...


@dataclass(frozen=True, slots=True)
class StageCalls:
    """The calls of one library, ready to be put into programs."""

    split: Launches
    whole: Launches
    """The same calls, their parallel regions kept on one lane."""
    kept: object = None
    """What must live as long as they do."""


class StageLanes(Protocol):
    """Lanes that run stages: those of this process, or of a device of an RPC tracker."""

    @property
    def lanes(self) -> int:
        """How many."""
        ...

    def load(self, path: Path, plan: ExecutionPlan, params: Mapping[str, Any]) -> StageCalls:
        """Load an exported library, and prepare the calls of its plan."""
        ...

    def program(
        self,
        groups: Sequence[Sequence[int]],
        successors: Sequence[Iterable[int]],
        *,
        homes: Sequence[int],
    ) -> Any:
        """As :meth:`LanePool.program`."""
        ...

    def time_ns(self, program: Any, number: int) -> int:
        """As :meth:`LanePool.time_ns`."""
        ...

    def ping_pong_ns(self) -> float:
        """As :meth:`LanePool.ping_pong_ns`."""
        ...

    def close(self) -> None:
        """As :meth:`LanePool.close`."""
        ...


class LibraryStageRunner(Protocol):
    """Runs stages of built libraries: on lanes, or on the streams of a GPU."""

    def add_library(
        self,
        path: str | Path,
        graph_json: str,
        params: Mapping[str, Any],
        views: Sequence[SliceView | ConcatView | None],
    ) -> int:
        """As :meth:`NativeStageRunner.add_library`."""
        ...

    def needs_no_kernel(self, library: int, operator: int) -> bool:
        """As :meth:`NativeStageRunner.needs_no_kernel`."""
        ...

    def prepare(
        self,
        groups: Sequence[Sequence[tuple[int, int]]],
        *,
        unsplit: Collection[tuple[int, int]] = (),
        homes: Sequence[int] | None = None,
        copies: int = 1,
    ) -> Any:
        """As :meth:`NativeStageRunner.prepare`; the handle has the names of its operators."""
        ...

    def time_ns(self, handle: Any, number: int) -> int:
        """As :meth:`NativeStageRunner.time_ns`."""
        ...

    def ping_pong_ns(self) -> float:
        """As :meth:`NativeStageRunner.ping_pong_ns`."""
        ...

    def notes(self) -> tuple[str, ...]:
        """What a reader of the times ought to know."""
        ...

    def close(self) -> None:
        """Give back what it holds; may be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class StageProgram:
    """A prepared stage; freed when the last reference goes."""

    program: Any
    """What the lanes made of it."""
    operators: tuple[str, ...]
    """By launch position, of one copy."""
    copies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Library:
    plan: ExecutionPlan
    calls: StageCalls
    position: dict[int, int]
    """Launch of each operator that still has one."""
    num_operators: int


class NativeStageRunner:
    """Runs stages of built libraries natively, to measure them.

    Parameters
    ----------
    lanes
        Threads, the caller's included.
    options
        How lanes share work and wait.
    on
        Lanes of another device, as many; those of this process where omitted.

    Raises
    ------
    OptionError
        If there are more lanes than cores.
    HostError
        If the native code cannot be compiled.
    """

    def __init__(
        self, lanes: int, options: LaneOptions | None = None, *, on: StageLanes | None = None
    ) -> None:
        self._pool: StageLanes = _LocalLanes(lanes, options) if on is None else on
        self._libraries: list[_Library] = []

    @property
    def lanes(self) -> int:
        """Threads, the caller's included."""
        return self._pool.lanes

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
        """
        placements = [
            Placement(stage=index, group=0, view=view) for index, view in enumerate(views)
        ]
        plan = lower_plan(graph_json, placements, lanes=self.lanes, reuse=False)
        self._libraries.append(
            _Library(
                plan=plan,
                calls=self._pool.load(Path(path), plan, params),
                position={
                    launch.operator_index: number for number, launch in enumerate(plan.launches)
                },
                num_operators=len(placements),
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
        unsplit: Collection[tuple[int, int]] = (),
        homes: Sequence[int] | None = None,
        copies: int = 1,
    ) -> StageProgram:
        """Make a program of concurrent groups.

        Parameters
        ----------
        groups
            For each group the (library, operator) pairs in the order they run. An operator that
            became a view costs nothing.
        unsplit
            Pairs that no idle lane helps with.
        homes
            The lane of each group; by turns where omitted.
        copies
            The program runs the stage this many times, each copy after the one before, as stages
            follow each other in a network: by dependencies, with no start and end of a run between.
            Where there are several groups they change lanes from copy to copy, so what they write
            has to come from another core's cache, as it does in a network.

        Raises
        ------
        CostError
            If a library or operator does not exist.
        """
        rows: list[list[int]] = []
        names: list[str] = []
        lanes: list[int] = []
        for place, group in enumerate(groups):
            row = []
            for number, operator in group:
                library = self._library(number, operator)
                position = library.position.get(operator)
                if position is not None:
                    alone = (number, operator) in unsplit
                    launches = library.calls.whole if alone else library.calls.split
                    row.append(launches.address(position))
                    names.append(library.plan.launches[position].operator)
            if row:
                rows.append(row)
                lanes.append(len(lanes) if homes is None else homes[place])
        count = len(rows)
        copied = range(copies if count else 1)
        program = self._pool.program(
            rows * len(copied),
            [
                range(count * (copy + 1), count * (copy + 2)) if copy + 1 < copies else ()
                for copy in copied
                for _ in rows
            ],
            homes=[lane + (copy if count > 1 else 0) for copy in copied for lane in lanes],
        )
        return StageProgram(program, tuple(names), len(copied))

    def time_ns(self, handle: StageProgram, number: int) -> int:
        """Nanoseconds of `number` runs of a stage, the order between them included.

        Whole programs are run, so the time of as many copies as come nearest is scaled.

        Raises
        ------
        CostError
            If a kernel fails, or the runner is closed.
        """
        try:
            runs = max(1, round(number / handle.copies))
            elapsed_ns = self._pool.time_ns(handle.program, runs)
            return round(elapsed_ns * number / (runs * handle.copies))
        except LaunchFailedError as failure:
            name = handle.operators[failure.position % len(handle.operators)]
            raise CostError(
                f"operator {name!r} failed while its stage was priced: {failure.text.strip()}"
            ) from failure
        except ExecutionError as error:
            raise CostError(f"a stage cannot be priced: {error}") from error

    def ping_pong_ns(self) -> float:
        """Nanoseconds a cache line takes between lanes, one way; 0 with one lane."""
        return self._pool.ping_pong_ns()

    def notes(self) -> tuple[str, ...]:
        """Nothing: lanes tell of their slow mode by their hand-off."""
        return ()

    def close(self) -> None:
        """Join the threads; may be called twice."""
        self._pool.close()

    def _library(self, number: int, operator: int) -> _Library:
        return find_library(self._libraries, number, operator)


class HoldsOperators(Protocol):
    """A library of a stage runner."""

    @property
    def num_operators(self) -> int:
        """How many operators it has kernels of."""
        ...


_Held = TypeVar("_Held", bound=HoldsOperators)


def find_library(libraries: Sequence[_Held], number: int, operator: int) -> _Held:
    """The library of this number.

    Parameters
    ----------
    operator
        One that it has to have.

    Raises
    ------
    CostError
        If there is none, or it lacks the operator.
    """
    if not 0 <= number < len(libraries):
        raise CostError(
            f"there is no library {number}: {len(libraries)} were added; "
            "use what add_library returned"
        )
    library = libraries[number]
    if not 0 <= operator < library.num_operators:
        raise CostError(
            f"library {number} has no operator {operator}: it has {library.num_operators}"
        )
    return library


class _LocalLanes(LanePool):
    """Lanes of this process."""

    def __init__(self, lanes: int, options: LaneOptions | None) -> None:
        self._shared = shared_runtime()
        super().__init__(self._shared, lanes, options, get_last_error=last_error_address())

    def load(self, path: Path, plan: ExecutionPlan, params: Mapping[str, Any]) -> StageCalls:
        library = KernelLibrary(path, self._shared)
        memory, addresses = _allocate(plan)
        table = TensorTable(plan, addresses)
        _fill_tensors(plan, table, params)
        kernels = [library.kernel(launch.kernel) for launch in plan.launches]
        whole = [kernel.on_one_lane(True) for kernel in kernels]
        return StageCalls(
            PreparedLaunches(plan.launches, kernels, table),
            PreparedLaunches(plan.launches, whole, table),
            kept=(library, memory),
        )


def _allocate(plan: ExecutionPlan) -> tuple[object, dict[int, int]]:
    memory, base = allocate_aligned(
        plan.arena_bytes
        + sum(b.size_bytes + 64 for b in plan.buffers if b.kind is not BufferKind.ARENA)
    )
    addresses, cursor = {}, base + plan.arena_bytes
    for index, buffer in enumerate(plan.buffers):
        if buffer.arena_offset is not None:
            addresses[index] = base + buffer.arena_offset
        else:
            addresses[index] = cursor
            cursor += -(-buffer.size_bytes // 64) * 64
    return memory, addresses


def _fill_tensors(plan: ExecutionPlan, table: TensorTable, params: Mapping[str, Any]) -> None:
    random = np.random.default_rng(0)
    named = {entry.tensor: params[entry.name] for entry in plan.inputs if entry.name in params}
    bound = {plan.tensors[index].buffer for index in named}
    for index, tensor in enumerate(plan.tensors):
        value = named.get(index)
        if value is not None:
            data = (value.numpy() if isinstance(value, tvm.nd.NDArray) else value).tobytes()
        elif tensor.buffer not in bound and tensor.dtype.startswith("float"):
            data = sample_tensor(random, tensor.shape, tensor.dtype).tobytes()
        else:
            continue
        ctypes.memmove(table.data(index), data, min(tensor.size_bytes, len(data)))
