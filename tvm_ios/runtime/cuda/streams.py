"""Execution of a plan on a GPU, its groups on streams ordered by events, without waiting.

A run forks from TVM's current stream of the calling thread and joins it, so to the caller it is one
piece of work on that stream. The call returns when everything is issued, as in TVM's own executors.
"""

from __future__ import annotations

import ctypes
import threading
from functools import partial

from tvm_ios.errors import ExecutionError
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.plan.stream_order import Step, StepKind, StreamProgram, order_on_streams, with_timing
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.loaded_plan import Kernel, LoadedPlan
from tvm_ios.runtime.cuda.errors import explain
from tvm_ios.runtime.cuda.native_streams import (
    NO_STEP,
    NativeStreams,
    Outcome,
    StreamBinding,
    Workspaces,
)
from tvm_ios.runtime.gpu.device import CudaDevice, CudaHandles, elapsed_ns, event_ns
from tvm_ios.runtime.gpu.driver import is_of_capture
from tvm_ios.runtime.libraries.open_libraries import LaunchCalls, OpenLibraries
from tvm_ios.runtime.libraries.protocol import LibraryLane

__all__ = ["CannotCaptureError", "CudaStreamExecutor"]

TRACED_RUNS = 3
"""Number of runs before a trace ends, unless given; it shows the last."""


class CannotCaptureError(Exception):
    """A call of a plan's kernels that a capture does not allow; the text says which, and why."""


class CudaStreamExecutor:
    """Executor of a plan's groups on streams. Calls from several threads wait for each other.

    The operator libraries on its GPU have completed the plan, and are closed after this. ``loaded``
    has the launches, also for other executors: each gives them kernels of its own.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        library: KernelLibrary,
        loaded: LoadedPlan,
        device: CudaDevice,
        libraries: OpenLibraries | None = None,
    ) -> None:
        self.plan = plan
        self.device = device
        self.program = order_on_streams(plan)
        self.lock = threading.RLock()
        self._loaded = loaded
        self._library = library
        self._native = NativeStreams(device.driver, library)
        self._last_caller = 0
        self._closed = False
        self._handles = CudaHandles(device)
        try:
            own = [self._handles.stream() for _ in range(self.program.num_streams)]
            self._streams = [0, *own]
            self._events = [self._handles.event() for _ in range(self.program.num_events)]
            self._done = self._handles.event()
            self.workspaces = Workspaces(self._native, self._streams)
            self._handles.later(self.workspaces.free)
            self._calls = None if libraries is None else LaunchCalls(libraries)
            if self._calls is not None:
                self._handles.later(self._calls.close)
            self._launches = loaded.bound(self._kernels())
            self._binding = self._bind(self.program, self._events)
        except BaseException:
            self._handles.close()
            raise

    @property
    def caller(self) -> int:
        """The current stream of TVM on this thread; 0 is the default stream."""
        return self._library.convention.current_stream(self.device.ordinal)

    def run(self) -> None:
        """Issue every launch once."""
        with self.lock:
            caller = self.begin()
            self._issue(self._binding, caller)
            self.end(caller)

    def capture(self, origin: int) -> int:
        """Handle of the graph of a captured run that forks from and joins the origin.

        To be called after :meth:`begin`, with the lock held.
        """
        with self.device.alone:
            graph, outcome = self._native.capture(self._binding, origin, self.caller)
        if outcome.step == NO_STEP:
            return graph
        # A step may fail and leave the capture valid: its graph then lacks the steps that follow.
        if graph:
            self.device.driver.call("cuGraphDestroy", graph)
        error = self._explain(self.program, outcome)
        if is_of_capture(error):
            raise CannotCaptureError(str(error)) from error
        raise error

    def time_ns(self, number: int) -> int:
        """Nanoseconds of ``number`` back-to-back runs, by events on the caller's stream."""
        with self.lock:
            caller = self.begin()
            issue = partial(self._issue, self._binding, caller)
            elapsed = elapsed_ns(self.device, caller, number, issue)
            self.end(caller)
            return elapsed

    def trace(self, runs: int | None = None) -> list[TraceEvent]:
        """The launches of the last of several runs with an event around each, by start time."""
        program, driver = with_timing(self.program), self.device.driver
        with self.lock:
            caller = self.begin()
            with CudaHandles(self.device) as handles:
                timed = [handles.event(timing=True) for _ in range(program.num_timed_events)]
                binding = self._bind(program, [*self._events, *timed])
                for _ in range(TRACED_RUNS if runs is None else runs):
                    self._issue(binding, caller)
                driver.call("cuStreamSynchronize", caller, where="a traced run")
                times_ns = [event_ns(driver, timed[0], event) for event in timed]
        issued = [step for step in program.steps if step.kind is StepKind.LAUNCH]
        events = [
            self._trace_event(step, times_ns[2 * row + 1], times_ns[2 * row + 2])
            for row, step in enumerate(issued)
        ]
        return sorted(events, key=lambda event: event.start_ns)

    def begin(self) -> int:
        """Caller's stream, after preparation for a run. To be called with the lock held."""
        if self._closed:
            raise ExecutionError("this executor is closed; load the model again")
        self.device.activate()
        self._native.hook()
        caller = self.caller
        if caller != self._last_caller:
            # The run before joined another stream, which this run does not wait for.
            self.device.settle()
            self._last_caller = caller
        return caller

    def end(self, caller: int) -> None:
        """Note where a run on the caller's stream ends, for :meth:`await_other_streams`."""
        if caller:  # TVM itself waits for the default stream when it copies
            self.device.driver.call("cuEventRecord", self._done, caller, where="the end of a run")

    def await_other_streams(self) -> None:
        """Wait for the last run, if it was on another stream than the default one."""
        with self.lock:
            if self._closed:
                raise ExecutionError("this executor is closed; load the model again")
            if self._last_caller:
                self.device.activate()  # this thread may have run nothing yet
                self.device.driver.call("cuEventSynchronize", self._done, where="the last run")

    def close(self) -> None:
        """Wait for running work, then destroy streams, events, workspace; may be called twice."""
        with self.lock:
            if not self._closed:
                self._closed = True
                self.device.settle()
                self._handles.close()

    def _issue(self, binding: StreamBinding, caller: int) -> None:
        outcome = self._native.issue(binding, caller)
        if outcome.step != NO_STEP:
            error = self._explain(binding.program, outcome)
            self.device.settle()  # so that nothing runs on while the caller mends things
            raise error

    def _explain(self, program: StreamProgram, outcome: Outcome) -> ExecutionError:
        driver, text = self.device.driver, self._library.last_error_text
        return explain(driver, self.plan, program, outcome, text, self._calls)

    def _kernels(self) -> dict[int, Kernel]:
        """Kernel of each launch issued; a call of an operator library is on its step's stream."""
        stream_of = {
            step.index: step.stream for step in self.program.steps if step.kind is StepKind.LAUNCH
        }
        return {number: self._kernel(number, stream) for number, stream in stream_of.items()}

    def _kernel(self, number: int, stream: int) -> Kernel:
        launch = self.plan.launches[number]
        if launch.call is None or self._calls is None:
            return self._library.kernel(launch.kernel)
        return self._calls.kernel(number, launch, self._lane(stream))

    def _lane(self, stream: int) -> LibraryLane:
        return LibraryLane(
            take_workspace=self._native.take_workspace,
            give_workspace=self._native.give_workspace,
            stream=self._streams[stream],
            code=self._library.code,
        )

    def _bind(self, program: StreamProgram, events: list[int]) -> StreamBinding:
        return StreamBinding(
            program,
            ctypes.addressof(self._launches),
            self._streams,
            events,
            self.workspaces,
            device=self.device.ordinal,
        )

    def _trace_event(self, step: Step, start_ns: int, end_ns: int) -> TraceEvent:
        assert step.group is not None
        group = self.plan.groups[step.group]
        return TraceEvent(
            operator=self.plan.launches[step.index].operator,
            stage=group.stage,
            group=group.position,
            lane=step.stream - 1,
            start_ns=start_ns,
            end_ns=end_ns,
        )
