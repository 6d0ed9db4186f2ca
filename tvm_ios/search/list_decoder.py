"""Simulated list schedules: tasks placed on lanes one by one, in C where there is a compiler.

A list has a key for each task, and whether idle lanes may help with it. Among the tasks whose
sources are placed, the one with the highest key is placed next, on the lane where it ends first
(HEFT; Topcuoglu et al., 2002). A task that may be helped runs on all lanes together where that is
sooner: each lane fetches everything the task reads, and its result lies on all of them.
"""

from __future__ import annotations

import ctypes
import heapq
import logging
from ctypes import POINTER, c_double, c_int, c_int32, c_int64
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tvm_ios.errors import HostError, SearchError
from tvm_ios.search.baselines import due_behind
from tvm_ios.support.c_compiler import NativeSource

__all__ = [
    "LIST_DECODER",
    "NEVER_DUE",
    "ListDecoder",
    "ListProblem",
    "ListTask",
    "NativeListDecoder",
    "PythonListDecoder",
    "Source",
    "Timeline",
    "make_list_decoder",
]

LATE = 16
"""Nanoseconds that a list counts as longer for each that it is late, at the latest of its tasks."""
NEVER_DUE = 2**63 - 1
LIST_DECODER = NativeSource(Path(__file__).parent / "native" / "list_decoder.c")


@dataclass(frozen=True, slots=True)
class Source:
    """A task that another task reads."""

    task: int
    """Number of the task, which is below that of its reader."""
    fetch_ns: int
    """Nanoseconds that the reader takes longer if the task ran on another lane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTask:
    """An operator, or a merge kernel, that is placed as a whole."""

    alone_ns: int
    """Nanoseconds on one lane."""
    helped_ns: int
    """Nanoseconds on all lanes together; those on one lane where idle lanes may not help."""
    sources: tuple[Source, ...]
    """Tasks it reads, ascending, each once."""
    due_ns: int = NEVER_DUE
    """Nanoseconds from the start of a run until which it should be done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListProblem:
    """Tasks to place on lanes, with the cost of signals between lanes."""

    tasks: tuple[ListTask, ...]
    lanes: int
    signal_ns: int
    """Nanoseconds until a lane learns that another one has finished."""

    @property
    def is_due(self) -> bool:
        """True if some task should be done in time."""
        return any(task.due_ns < NEVER_DUE for task in self.tasks)

    def latest_ns(self) -> NDArray[np.int64]:
        """Least time (ns) until which each task, or one behind it, should be done."""
        due_ns = [task.due_ns for task in self.tasks]
        reads = [[source.task for source in task.sources] for task in self.tasks]
        return np.array(due_behind(due_ns, reads), np.int64)

    def upward_ranks(self) -> NDArray[np.float64]:
        """Longest way (ns) from the start of each task to the end, with hand-overs (HEFT)."""
        ranks = np.zeros(len(self.tasks))
        for number in range(len(self.tasks) - 1, -1, -1):
            task = self.tasks[number]
            ranks[number] += task.alone_ns
            for source in task.sources:
                way_ns = ranks[number] + self.signal_ns + source.fetch_ns
                ranks[source.task] = max(ranks[source.task], way_ns)
        return ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Start, end and lane of every task of one simulated list."""

    order: tuple[int, ...]
    """Tasks in the order they were placed."""
    starts_ns: tuple[int, ...]
    """Start of each task in nanoseconds, before it reads what other lanes wrote."""
    ends_ns: tuple[int, ...]
    """End of each task in nanoseconds."""
    homes: tuple[int, ...]
    """The lane of each task."""
    helped: tuple[bool, ...]
    """Flags, one a task: True if all lanes run it together."""


class ListDecoder(Protocol):
    """A simulator of the lists of one problem."""

    def lengths_ns(self, lists: NDArray[np.float64]) -> NDArray[np.int64]:
        """Length in nanoseconds of each simulated list, and more where some task is late.

        ``lists`` has the shape (lists, 2, tasks): keys first, then numbers above 0 for tasks that
        may be helped.
        """
        ...

    def timeline(self, row: NDArray[np.float64]) -> Timeline:
        """Start, end, lane and order of every task of one list, of the shape (2, tasks)."""
        ...


class PythonListDecoder:
    """The decoder in plain Python; O(tasks x (lanes + log tasks) + lanes x sources) a list."""

    def __init__(self, problem: ListProblem) -> None:
        self._problem = problem
        self._readers: list[list[int]] = [[] for _ in problem.tasks]
        for number, task in enumerate(problem.tasks):
            for source in task.sources:
                self._readers[source.task].append(number)

    def lengths_ns(self, lists: NDArray[np.float64]) -> NDArray[np.int64]:
        """Length in nanoseconds of each simulated list."""
        return np.array([self._place(*row.tolist())[0] for row in lists], np.int64)

    def timeline(self, row: NDArray[np.float64]) -> Timeline:
        """Start, end, lane and order of every task of one list."""
        return self._place(*row.tolist())[1]

    def _place(self, keys: list[float], may_help: list[float]) -> tuple[int, Timeline]:
        problem = self._problem
        tasks, lanes = problem.tasks, range(problem.lanes)
        free_ns = [0] * problem.lanes
        ends_ns, starts_ns, homes = ([0] * len(tasks) for _ in range(3))
        waiting = [len(task.sources) for task in tasks]
        ready = [(-keys[number], number) for number in range(len(tasks)) if not waiting[number]]
        heapq.heapify(ready)
        helped = [False] * len(tasks)
        order = []
        while ready:
            number = heapq.heappop(ready)[1]
            task = tasks[number]
            begins_ns, fetches_ns = list(free_ns), [0] * problem.lanes
            for source in task.sources:
                # Of what all lanes wrote together, each has its own share already.
                part_ns = source.fetch_ns * (problem.lanes - 1) // problem.lanes
                for lane in lanes:
                    here = homes[source.task] == lane
                    ready_ns = ends_ns[source.task] + (0 if here else problem.signal_ns)
                    begins_ns[lane] = max(begins_ns[lane], ready_ns)
                    whole_ns = 0 if here else source.fetch_ns
                    fetches_ns[lane] += part_ns if helped[source.task] else whole_ns
            alone_ns = [begins_ns[lane] + fetches_ns[lane] + task.alone_ns for lane in lanes]
            home = min(lanes, key=lambda lane: (alone_ns[lane], lane))
            start_ns, end_ns = begins_ns[home], alone_ns[home]
            all_ready_ns = max(begins_ns)
            together_ns = all_ready_ns + max(fetches_ns) + task.helped_ns
            helped[number] = (
                may_help[number] > 0 and task.helped_ns < task.alone_ns and together_ns < end_ns
            )
            if helped[number]:
                start_ns, end_ns = all_ready_ns, together_ns
                free_ns = [end_ns] * problem.lanes
            free_ns[home] = ends_ns[number] = end_ns
            starts_ns[number], homes[number] = start_ns, home
            order.append(number)
            for reader in self._readers[number]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(ready, (-keys[reader], reader))
        lateness_ns = (end - task.due_ns for end, task in zip(ends_ns, tasks, strict=True))
        late_ns = max(0, *lateness_ns, 0)
        return max(ends_ns, default=0) + LATE * late_ns, Timeline(
            order=tuple(order),
            starts_ns=tuple(starts_ns),
            ends_ns=tuple(ends_ns),
            homes=tuple(homes),
            helped=tuple(helped),
        )


class _NativeProblem(ctypes.Structure):
    _fields_ = (
        ("num_tasks", c_int32),
        ("num_lanes", c_int32),
        ("signal_ns", c_int64),
        ("alone_ns", POINTER(c_int64)),
        ("helped_ns", POINTER(c_int64)),
        ("first", POINTER(c_int32)),
        ("sources", POINTER(c_int32)),
        ("fetch_ns", POINTER(c_int64)),
        ("due_ns", POINTER(c_int64)),
    )


class NativeListDecoder:
    """The decoder in C, with the same answers as :class:`PythonListDecoder`."""

    def __init__(self, problem: ListProblem) -> None:
        library = _library()
        if library is None:
            raise SearchError("the compiled decoder needs a C compiler; use PythonListDecoder")
        self._library = library
        sources = [source for task in problem.tasks for source in task.sources]
        first = np.cumsum([0, *(len(task.sources) for task in problem.tasks)])
        # Kept here: the native structure has their addresses only.
        self._arrays = (
            np.array([task.alone_ns for task in problem.tasks], np.int64),
            np.array([task.helped_ns for task in problem.tasks], np.int64),
            np.array(first, np.int32),
            np.array([source.task for source in sources], np.int32),
            np.array([source.fetch_ns for source in sources], np.int64),
            np.array([task.due_ns for task in problem.tasks], np.int64),
        )
        self._num_tasks = len(problem.tasks)
        pointers = [_pointer(array) for array in self._arrays]
        self._native = _NativeProblem(
            len(problem.tasks), problem.lanes, problem.signal_ns, *pointers
        )

    def lengths_ns(self, lists: NDArray[np.float64]) -> NDArray[np.int64]:
        """Length in nanoseconds of each simulated list."""
        rows = np.ascontiguousarray(lists, np.float64)
        lengths = np.zeros(len(rows), np.int64)
        self._call("lengths", c_int64(len(rows)), _pointer(rows), _pointer(lengths))
        return lengths

    def timeline(self, row: NDArray[np.float64]) -> Timeline:
        """Start, end, lane and order of every task of one list."""
        order, homes, helped = (np.zeros(self._num_tasks, np.int32) for _ in range(3))
        starts, ends = (np.zeros(self._num_tasks, np.int64) for _ in range(2))
        keys = np.ascontiguousarray(row, np.float64)
        arrays = (keys, order, starts, ends, homes, helped)
        self._call("timeline", *[_pointer(array) for array in arrays])
        return Timeline(
            order=tuple(order.tolist()),
            starts_ns=tuple(starts.tolist()),
            ends_ns=tuple(ends.tolist()),
            homes=tuple(homes.tolist()),
            helped=tuple(map(bool, helped.tolist())),
        )

    def _call(self, name: str, *arguments: object) -> None:
        function = getattr(self._library, f"tvm_ios_list_{name}")
        if not function(ctypes.byref(self._native), *arguments):
            raise SearchError(
                f"out of memory in a list of {self._num_tasks} tasks; free some, or search without"
            )


def make_list_decoder(problem: ListProblem) -> ListDecoder:
    """The decoder of a problem: compiled if possible, else plain Python."""
    if _library() is not None:
        return NativeListDecoder(problem)
    return PythonListDecoder(problem)


def _pointer(array: NDArray[Any]) -> Any:
    kinds: dict[str, Any] = {"float64": c_double, "int64": c_int64, "int32": c_int32}
    return array.ctypes.data_as(POINTER(kinds[array.dtype.name]))


@cache
def _library() -> ctypes.CDLL | None:
    """The compiled decoder; None where it cannot be had, with the reason logged once."""
    try:
        library = LIST_DECODER.library
    except (HostError, OSError) as error:
        logging.getLogger(__name__).info("simulating lists in plain Python: %s", error)
        return None
    for name in ("lengths", "timeline"):
        getattr(library, f"tvm_ios_list_{name}").restype = c_int
    return library
