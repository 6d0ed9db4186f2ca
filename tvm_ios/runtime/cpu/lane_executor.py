"""The native lane executor: runs a whole plan in C, on several lanes."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.parts.masks import groups_of_parts
from tvm_ios.plan.plan import ExecutionPlan, Group
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LaneOptions, LanePool, LaunchFailedError
from tvm_ios.runtime.base.loaded_plan import LoadedPlan
from tvm_ios.runtime.base.native_runtime import NativeTraceRow
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls, host_lane, kernels_of

__all__ = ["LaneExecutor", "executor_here"]

TRACE_RUNS = 20
"""Number of runs before a trace ends, unless given; it shows the last, as caches start cold."""


class LaneExecutor:
    """Runs a plan natively on a pool of lanes. Calls from several threads wait for each other.

    ``loaded`` is the plan with a kernel for each launch. ``parts`` has the bits of those parts of
    the plan that run; all do where it is 0. ``poison`` overwrites outputs before they are written,
    and dead buffers; for tests. ``calls`` are those of operator libraries among the kernels; closed
    with this, as the pool is. ``kept`` are the kernels and their memory.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        pool: LanePool,
        loaded: LoadedPlan,
        *,
        parts: int = 0,
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
        self._parts, self._poison = parts, poison
        self._groups = groups_of_parts(plan, parts)
        self._launches = [launch for group in self._groups for launch in group.launches]
        """Number in the plan of each launch that runs, in order."""
        self._program = pool.plan_program(loaded, parts=parts, poison=poison)

    def of_parts(self, parts: int) -> LaneExecutor:
        """Executor of some parts of the plan, by their bits, with the same lanes and kernels.

        Closing either closes both.
        """
        return LaneExecutor(
            self.plan,
            self._pool,
            self._loaded,
            parts=parts,
            poison=self._poison,
            calls=self._calls,
            kept=self._kept,
        )

    def run(self) -> None:
        """Run every launch once."""
        if not self._launches:  # nobody would ever end such a run
            return
        try:
            self._pool.run(self._program)
        except LaunchFailedError as failure:
            raise self._explain(failure) from None

    def time_ns(self, number: int) -> int:
        """Nanoseconds of `number` back-to-back runs."""
        if not self._launches:
            return 0
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
        if not self._launches:
            return []
        rows = (NativeTraceRow * len(self._launches))()
        try:
            program = self._pool.plan_program(self._loaded, parts=self._parts, trace=rows)
            self._pool.run(program, number=number, assemble=True)
        except LaunchFailedError as failure:
            raise self._explain(failure) from None
        begin = min((row.start_ns for row in rows), default=0)
        groups = [group for group in self._groups for _ in group.launches]
        events = [
            TraceEvent(
                operator=self.plan.launches[launch].operator,
                stage=group.stage,
                group=group.position,
                lane=row.lane,
                start_ns=row.start_ns - begin,
                end_ns=row.end_ns - begin,
            )
            for launch, group, row in zip(self._launches, groups, rows, strict=True)
        ]
        return sorted(events, key=lambda event: event.start_ns)

    def close(self) -> None:
        """Join the threads; may be called twice."""
        self._pool.close()
        if self._calls is not None:
            self._calls.close()

    def _explain(self, failure: LaunchFailedError) -> ExecutionError:
        position = self._launches[failure.position]
        launch = self.plan.launches[position]
        where = f"operator {launch.operator!r} ({launch.computed_by}){self._pool.place}"
        if self._calls is not None:
            of_library = self._calls.failure(position, where)
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
    errors = library.convention.last_error(library.runtime)
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
