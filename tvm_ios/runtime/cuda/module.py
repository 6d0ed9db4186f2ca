"""The graph executor that users hold on a GPU: the interface of TVM's ``GraphModule``."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping
from typing import Any

from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.plan_module import PlanModule
from tvm_ios.runtime.cuda.graphs import CudaGraphExecutor
from tvm_ios.runtime.cuda.memory import CudaMemory, explained
from tvm_ios.runtime.cuda.streams import CudaStreamExecutor
from tvm_ios.runtime.gpu.device import CudaDevice, require_arch
from tvm_ios.runtime.libraries.open_libraries import OpenLibraries
from tvm_ios.runtime.libraries.protocol import FactStore

__all__ = ["CudaGraphModule"]


class CudaGraphModule(PlanModule):
    """Executor of a plan on a GPU; use it like ``tvm.contrib.graph_executor.GraphModule``.

    As in TVM a run is work on TVM's current stream of the calling thread (``set_raw_stream``), the
    default one unless set, and may still be going on when :meth:`run` returns. Arrays from
    :meth:`get_output` share their bytes with the module and change with the next run; reading them
    waits for the default stream, so :meth:`get_output` waits for runs on any other.

    Arguments and errors are those of :func:`tvm_ios.load`, and ``device`` is the number of a GPU.
    Parameters that lie there are used, never written; others are copied there. ``arch`` is the
    architecture that the kernels were compiled for, such as ``sm_90``; checked where given.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        library: KernelLibrary,
        params: Mapping[str, Any],
        *,
        device: int = 0,
        cuda_graph: bool = True,
        arch: str | None = None,
        store: FactStore | None = None,
    ) -> None:
        with contextlib.ExitStack() as undo:
            gpu = CudaDevice(device)
            undo.callback(gpu.close)
            if arch is not None:
                require_arch(gpu.facts, arch)
            memory = CudaMemory(plan, params, gpu)
            undo.callback(memory.release)
            libraries = undo.enter_context(OpenLibraries(gpu, store, target_kind="cuda"))
            plan = libraries.complete(plan)
            loaded = memory.load(library.runtime, plan)
            streams = CudaStreamExecutor(plan, library, loaded, gpu, libraries)
            self._streams = streams
            self._graphs = CudaGraphExecutor(streams, memory) if cuda_graph else None
            executor = self._graphs or streams
            undo.callback(executor.close)
            super().__init__(plan, library, params, memory, executor)
            self._finalizer = weakref.finalize(self, undo.pop_all().close)

    @property
    def num_streams(self) -> int:
        """Number of streams of a run, besides the caller's."""
        return self._streams.program.num_streams

    @property
    def workspace_bytes(self) -> int:
        """Bytes that kernels have taken as workspace so far, besides the plan's memory."""
        return self._streams.workspaces.size_bytes

    @property
    def fallback(self) -> str | None:
        """Reason why runs go to streams though a graph was asked for; None where they do not."""
        return None if self._graphs is None else self._graphs.fallback

    def as_text(self) -> str:
        """The calls of a run, one line a stream: ``!n`` records event n, ``?n`` waits for it."""
        return self._streams.program.as_text(self.plan)

    def set_input(self, key: int | str | None = None, value: Any = None, **params: Any) -> None:
        """Copy values into inputs or parameters; returns when the copies are complete."""
        self._streams.await_other_streams()
        with explained("copying inputs to the GPU", "TVM's copy"):
            super().set_input(key, value, **params)
            if self._streams.caller:
                self._memory.device.sync()  # TVM copies on the default stream

    def get_output(self, index: int | str, out: Any = None) -> Any:
        """An output by number, copied to `out` if given, once the last run has written it."""
        self._streams.await_other_streams()
        with explained(f"copying output {index}", "TVM's copy"):
            found = super().get_output(index, out)
            if out is not None and self._streams.caller:
                self._memory.device.sync()  # TVM copies on the default stream
            return found

    def _run_rest(self) -> None:
        self._streams.await_other_streams()
        super()._run_rest()

    def ping_pong_ns(self) -> float:
        """Return 0: streams have no hand-off between cores."""
        return 0.0

    def waited_ns(self) -> int | None:
        """Return None: streams wait for no core."""
        return None

    def close(self) -> None:
        """Destroy streams, events and graph and release the memory; may be called twice.

        Arrays that callers hold live on; everything else raises ExecutionError from now on.
        """
        self._finalizer()
