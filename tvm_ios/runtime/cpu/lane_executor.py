"""The native lane executor: runs a whole plan in C, on several lanes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.plan import ExecutionPlan, Launch
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.base.kernel_arguments import Kernel, PreparedLaunches
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.native_runtime import NativeTraceRow
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.base.poison import poison_data
from tvm_ios.runtime.base.tvm_abi import TvmFunction
from tvm_ios.runtime.cpu.lane_pool import LaneOptions, LanePool, LaneProgram, LaunchFailedError
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls, host_lane

__all__ = ["LaneExecutor", "dependency_order"]

TRACE_RUNS = 20
"""Number of runs before a trace ends, unless given; it shows the last, as caches start cold."""


class LaneExecutor:
    """Runs a plan natively. Calls from several threads wait for each other.

    There are as many threads as the plan has lanes, the caller's included, where ``lanes`` is
    omitted. ``poison`` overwrites outputs before they are written, and dead buffers; for tests.
    ``calls`` are of operator libraries on this processor, which have completed the plan; closed
    with this. Without them TVM's kernels compute everything.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        library: KernelLibrary,
        memory: PlanMemory,
        *,
        lanes: int | None = None,
        options: LaneOptions | None = None,
        poison: bool = False,
        calls: LaunchCalls | None = None,
    ) -> None:
        self.plan = plan
        self._library = library
        self._memory = memory
        self._pool = LanePool(
            library.runtime,
            plan.lanes if lanes is None else lanes,
            options,
            get_last_error=TvmFunction.LAST_ERROR.address,
        )
        self.lanes = self._pool.lanes
        """Number of threads, the caller's included."""
        self._calls = calls
        kernels = [self._kernel(*launch) for launch in enumerate(plan.launches)]
        self._launches = PreparedLaunches(plan.launches, kernels, memory.table)
        barriers = options is not None and options.barriers
        self._order = _with_barriers(plan) if barriers else dependency_order(plan)
        self._poison = poison_data(plan, memory.table) if poison else None
        self._poisoned = memory.arrays if poison else ()  # it names their bytes for good
        self._program = self._make_program(None)

    def run(self) -> None:
        """Run every launch once."""
        try:
            self._pool.run(self._program)
        except LaunchFailedError as failure:
            raise self._explain(failure) from None

    def time_ns(self, number: int) -> int:
        """Nanoseconds of `number` back-to-back runs."""
        try:
            return self._pool.time_ns(self._program, number)
        except LaunchFailedError as failure:
            raise self._explain(failure) from None

    def constants_changed(self) -> None:
        """Have operator libraries read constants anew, after parameters were written."""
        if self._calls is not None:
            self._calls.constants_changed()

    def ping_pong_ns(self) -> float:
        """Nanoseconds of a core-to-core hand-off between two lanes; 0 with one lane."""
        return self._pool.ping_pong_ns()

    def trace(self, runs: int | None = None) -> list[TraceEvent]:
        """The launches of the last of several runs, with lane and times, by start time."""
        number = TRACE_RUNS if runs is None else runs
        rows = (NativeTraceRow * (len(self.plan.launches) or 1))()
        try:
            self._pool.run(self._make_program(rows), number=number, assemble=True)
        except LaunchFailedError as failure:
            raise self._explain(failure) from None
        begin = min((row.start_ns for row in rows), default=0)
        events = [
            TraceEvent(
                operator=self.plan.launches[launch].operator,
                stage=group.stage,
                group=group.position,
                lane=rows[launch].lane,
                start_ns=rows[launch].start_ns - begin,
                end_ns=rows[launch].end_ns - begin,
            )
            for group in self.plan.groups
            for launch in group.launches
        ]
        return sorted(events, key=lambda event: event.start_ns)

    def close(self) -> None:
        """Join the threads; may be called twice."""
        self._pool.close()
        if self._calls is not None:
            self._calls.close()

    def _kernel(self, position: int, launch: Launch) -> Kernel:
        if launch.call is not None and self._calls is not None:
            kernel = self._calls.kernel(position, launch, host_lane(self._library))
        else:
            kernel = self._library.kernel(launch.kernel)
        return kernel.on_one_lane(not launch.split)

    def _make_program(self, trace: ctypes.Array[NativeTraceRow] | None) -> LaneProgram:
        groups, successors, homes = self._order
        return self._pool.program(
            [[self._launches.address(launch) for launch in group] for group in groups],
            successors,
            homes=homes,
            poison=self._poison,
            trace=trace,
        )

    def _explain(self, failure: LaunchFailedError) -> ExecutionError:
        launch = self.plan.launches[failure.position]
        where = f"operator {launch.operator!r} ({launch.computed_by})"
        if self._calls is not None:
            of_library = self._calls.failure(failure.position, where)
            if of_library is not None:
                return of_library
        return ExecutionError(
            f"{where} failed: "
            f"{failure.text.strip() or 'no error text'}; the executor stays usable, mend its inputs"
        )


_Order = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]], Sequence[int]]
"""Launches of each group, the groups that wait for it, and its lane."""


def dependency_order(plan: ExecutionPlan) -> _Order:
    """The order that only data demand: a group starts when its dependencies are complete."""
    successors: list[list[int]] = [[] for _ in plan.groups]
    for number, group in enumerate(plan.groups):
        for dependency in group.dependencies:
            successors[dependency].append(number)
    lanes = [group.lane for group in plan.groups]
    return [group.launches for group in plan.groups], successors, lanes


def _with_barriers(plan: ExecutionPlan) -> _Order:
    """The order of stages: an empty group between two stages waits for one and starts the other."""
    launches: list[Sequence[int]] = []
    successors: list[list[int]] = []
    lanes: list[int] = []

    def add(launch: Sequence[int], lane: int, after: Iterable[int]) -> int:
        for earlier in after:
            successors[earlier].append(len(launches))
        launches.append(launch)
        successors.append([])
        lanes.append(lane)
        return len(launches) - 1

    place: list[int] = []  # of each group of the plan
    barrier: list[int] = []
    stage: list[int] = []
    for number, group in enumerate(plan.groups):
        if number and group.stage != plan.groups[number - 1].stage:
            barrier, stage = [add((), 0, stage)], []
        # Dependencies on earlier stages go through the barrier.
        inside = [place[dependency] for dependency in group.dependencies]
        place.append(add(group.launches, group.lane, barrier + [p for p in inside if p in stage]))
        stage.append(place[-1])
    return launches, successors, lanes
