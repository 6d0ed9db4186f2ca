"""The native lane executor: runs a whole plan in C, on several lanes."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.plan import ExecutionPlan, Group
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LaneOptions, LanePool, LaunchFailedError
from tvm_ios.runtime.base.loaded_plan import LoadedPlan
from tvm_ios.runtime.base.native_runtime import NativeTraceRow
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.base.tvm_abi import TvmFunction
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls, host_lane, kernels_of

__all__ = ["LaneExecutor", "executor_here"]

TRACE_RUNS = 20
"""Number of runs before a trace ends, unless given; it shows the last, as caches start cold."""


class LaneExecutor:
    """Runs a plan natively on a pool of lanes. Calls from several threads wait for each other.

    ``loaded`` is the plan with a kernel for each launch. ``poison`` overwrites outputs before they
    are written, and dead buffers; for tests. ``calls`` are those of operator libraries among the
    kernels; closed with this, as the pool is. ``kept`` are the kernels and their memory.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        pool: LanePool,
        loaded: LoadedPlan,
        *,
        poison: bool = False,
        calls: LaunchCalls | None = None,
        kept: object = None,
    ) -> None:
        self.plan = plan
        self.lanes = pool.lanes
        """Number of threads, the caller's included."""
        self._pool = pool
        self._calls = calls
        self._loaded = loaded
        self._kept = kept
        self._program = pool.plan_program(loaded, poison=poison)

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

    def waited_ns(self) -> int | None:
        """Nanoseconds that lanes waited for a core while timed; None where nobody counts them."""
        return self._pool.waited_ns()

    def trace(self, runs: int | None = None) -> list[TraceEvent]:
        """The launches of the last of several runs, with lane and times, by start time."""
        number = TRACE_RUNS if runs is None else runs
        rows = (NativeTraceRow * (len(self.plan.launches) or 1))()
        try:
            program = self._pool.plan_program(self._loaded, trace=rows)
            self._pool.run(program, number=number, assemble=True)
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

    def _explain(self, failure: LaunchFailedError) -> ExecutionError:
        launch = self.plan.launches[failure.position]
        where = f"operator {launch.operator!r} ({launch.computed_by}){self._pool.place}"
        if self._calls is not None:
            of_library = self._calls.failure(failure.position, where)
            if of_library is not None:
                return of_library
        return ExecutionError(
            f"{where} failed: "
            f"{failure.text.strip() or 'no error text'}; the executor stays usable, mend its inputs"
        )


def executor_here(
    plan: ExecutionPlan,
    library: KernelLibrary,
    memory: PlanMemory,
    *,
    lanes: int | None = None,
    options: LaneOptions | None = None,
    poison: bool = False,
    calls: LaunchCalls | None = None,
) -> LaneExecutor:
    """Executor of a plan in this process, on as many lanes as it has, unless ``lanes`` says.

    Calls of operator libraries have completed the plan; without them TVM's kernels compute
    everything.
    """
    count = plan.lanes if lanes is None else lanes
    errors = TvmFunction.LAST_ERROR.address
    pool = LanePool(library.runtime, count, options, get_last_error=errors)
    barriers = options is not None and options.barriers
    loaded = memory.load(library.runtime, _with_barriers(plan) if barriers else plan)
    lane = host_lane(library.runtime, library.code)
    loaded.bind(kernels_of(plan, library, calls, lane))
    kept = (library, memory)
    return LaneExecutor(plan, pool, loaded, poison=poison, calls=calls, kept=kept)


def _with_barriers(plan: ExecutionPlan) -> ExecutionPlan:
    """A plan in which each group waits for all groups of the stage before, too."""
    groups: list[Group] = []
    before: list[int] = []
    stage: list[int] = []
    for number, group in enumerate(plan.groups):
        if number and group.stage != plan.groups[number - 1].stage:
            before, stage = stage, []
        inside = [dependency for dependency in group.dependencies if dependency in stage]
        groups.append(replace(group, dependencies=(*before, *inside)))
        stage.append(number)
    return replace(plan, groups=tuple(groups))
