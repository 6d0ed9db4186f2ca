"""The graph executor users hold on a CPU: the interface of TVM's ``GraphModule``, on our lanes."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.base.plan_module import PlanModule
from tvm_ios.runtime.cpu.lane_executor import LaneExecutor, executor_here
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls, OpenLibraries
from tvm_ios.runtime.libraries.processor import ThisProcessor
from tvm_ios.runtime.libraries.protocol import FactStore

__all__ = ["MultiStreamGraphModule"]


class MultiStreamGraphModule(PlanModule):
    """Runs a plan; use it like ``tvm.contrib.graph_executor.GraphModule``.

    Runs from several threads wait for each other. As in TVM, arrays from :meth:`get_output` share
    their bytes with the module and change with the next run.

    Parameters
    ----------
    plan, library
        Plan to run, and its kernels.
    params
        Parameters by name; their arrays are used, never written.
    lanes
        Threads, the caller's included; as many as the plan has lanes where omitted.
    store
        Facts that operator libraries found out of calls before; what they find out now is added.

    Raises
    ------
    OptionError
        If there are more lanes than cores.
    HostError
        If an operator library of the plan is missing.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        library: KernelLibrary,
        params: Mapping[str, Any],
        *,
        lanes: int | None = None,
        options: LaneOptions | None = None,
        store: FactStore | None = None,
    ) -> None:
        memory = PlanMemory(plan, params)
        with ExitStack() as undo:
            here = ThisProcessor(kernels=library)
            libraries = undo.enter_context(OpenLibraries(here, store, target_kind="llvm"))
            # Calls change by it and tensors do not, so the memory still fits.
            plan = libraries.complete(plan)
            calls = LaunchCalls(libraries)
            undo.callback(calls.close)
            self._lane_executor = executor_here(
                plan, library, memory, lanes=lanes, options=options, calls=calls
            )
            self._parts_executors: dict[int, LaneExecutor] = {}
            super().__init__(plan, library, params, memory, self._lane_executor)
            # With the executor, not with this: its launches call what the libraries hold.
            self._finalizer = weakref.finalize(self._lane_executor, undo.pop_all().close)
            self._finalizer.atexit = False  # a daemon thread may be in a run

    def close(self) -> None:
        """Give back threads and libraries; later runs raise ExecutionError."""
        super().close()
        self._finalizer()

    @property
    def lanes(self) -> int:
        """Number of threads, the caller's included."""
        return self._lane_executor.lanes

    def ping_pong_ns(self) -> float:
        """Nanoseconds of a core-to-core hand-off between two lanes; 0 with one lane."""
        return self._lane_executor.ping_pong_ns()

    def waited_ns(self) -> int | None:
        """Nanoseconds that lanes waited for a core while timed; None where nobody counts them."""
        return self._lane_executor.waited_ns()

    def _executor_of(self, parts: int) -> LaneExecutor:
        if parts not in self._parts_executors:
            self._parts_executors[parts] = self._lane_executor.of_parts(parts)
        return self._parts_executors[parts]

    def _written(self, name: str) -> None:
        if name in self._params:
            self._lane_executor.constants_changed()
