"""Execution of a plan on a GPU as one CUDA graph: a run on streams, captured and replayed.

The first run goes to streams: it loads modules, which happens lazily, and finds out how much
workspace kernels need. Only then comes the capture, in which nothing may allocate or wait.
"""

from __future__ import annotations

import warnings
from functools import partial

from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.cuda.memory import CudaMemory
from tvm_ios.runtime.cuda.streams import CannotCaptureError, CudaStreamExecutor
from tvm_ios.runtime.gpu.device import CudaHandles, elapsed_ns
from tvm_ios.runtime.gpu.driver import CudaCallError

__all__ = ["CudaGraphExecutor"]

_WHOLE = "the graph of this model"
_NOT_SUPPORTED = ("CUDA_ERROR_NOT_SUPPORTED", "CUDA_ERROR_NOT_PERMITTED")


class CudaGraphExecutor:
    """Executor that replays a plan in one launch. Calls from several threads wait for each other.

    The executor on streams that is captured is closed with this one. When a tensor of the memory is
    bound to another array, the graph is captured anew.
    """

    def __init__(self, streams: CudaStreamExecutor, memory: CudaMemory) -> None:
        self.plan = streams.plan
        self.streams = streams
        self.captures = 0
        """Number of graphs captured so far."""
        self.fallback: str | None = None
        """Reason why all runs go to streams; None where runs are replayed."""
        self._memory = memory
        self._device = streams.device
        self.graph: int | None = None
        """Handle of the instantiated graph; None before the first run, and on streams."""
        self._generation = -1
        self._warm = False

    def run(self) -> None:
        """Run once: replay, or on streams where the kernels cannot be captured.

        Warns
        -----
        RuntimeWarning
            Once, if the kernels cannot be captured; the text says why.
        """
        with self.streams.lock:
            caller = self._make_ready()
            if self.graph is None:
                self.streams.run()
            else:
                self._call("cuGraphLaunch", self.graph, caller, where=_WHOLE)
                self.streams.end(caller)

    def time_ns(self, number: int) -> int:
        """Nanoseconds of ``number`` back-to-back runs, by events on the caller's stream."""
        with self.streams.lock:
            caller = self._make_ready()
            if self.graph is None:
                return self.streams.time_ns(number)
            replay = partial(self._call, "cuGraphLaunch", self.graph, caller, where=_WHOLE)
            elapsed = elapsed_ns(self._device, caller, number, replay)
            self.streams.end(caller)
            return elapsed

    def trace(self, runs: int | None = None) -> list[TraceEvent]:
        """The launches of a run on streams, by start time; a graph takes no times of launches."""
        return self.streams.trace(runs)

    def close(self) -> None:
        """Wait for running work, then destroy graph, streams, events; may be called twice."""
        with self.streams.lock:
            try:
                self._drop_graph()
            finally:
                self.streams.close()

    def _make_ready(self) -> int:
        """Caller's stream, after a graph of the tensors bound now is made, or found impossible."""
        caller = self.streams.begin()
        current = self.graph is not None and self._generation == self._memory.generation
        if current or self.fallback is not None:
            return caller
        if not self._warm:
            self.streams.run()
            self._call("cuStreamSynchronize", caller, where="the first run of this model")
            self._warm = True
        self._drop_graph()
        try:
            self._capture(caller)
        except CannotCaptureError as reason:
            self.fallback = str(reason)
            warnings.warn(
                f"this model runs on streams, not as a CUDA graph: {reason}",
                RuntimeWarning,
                stacklevel=4,
            )
        return caller

    def _capture(self, caller: int) -> None:
        # Read before the capture: a tensor that is bound meanwhile makes the graph an old one.
        generation = self._memory.generation
        handles = CudaHandles(self._device)
        try:
            with CudaHandles(self._device) as passing:
                graph = self.streams.capture(passing.stream())
                passing.later(self._call, "cuGraphDestroy", graph)
                executable = _instantiate(handles, graph)
            self._call("cuGraphUpload", executable, caller, where=_WHOLE)
        except BaseException:
            handles.close()
            raise
        self.captures += 1
        self.graph, self._generation, self._handles = executable, generation, handles

    def _drop_graph(self) -> None:
        """Destroy the graph after its last run."""
        if self.graph is not None:
            self.graph = None
            self._device.settle()
            self._handles.close()

    def _call(self, function: str, *arguments: int | None, where: str = "") -> None:
        self._device.driver.call(function, *arguments, where=where)


def _instantiate(handles: CudaHandles, graph: int) -> int:
    try:
        return handles.make(
            "cuGraphInstantiateWithFlags", graph, 0, undo="cuGraphExecDestroy", where=_WHOLE
        )
    except CudaCallError as error:
        if error.name in _NOT_SUPPORTED:
            raise CannotCaptureError(str(error)) from error
        raise
