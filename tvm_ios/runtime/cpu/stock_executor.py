"""TVM's own graph executor on the same kernels: the baseline of every claim."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from typing import Any

import tvm

from tvm_ios.errors import ExecutionError
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LanePool, LaunchFailedError
from tvm_ios.runtime.base.native_runtime import NativeLaunch
from tvm_ios.runtime.base.tvm_abi import TvmFunction, packed_handle

__all__ = ["StockExecutor", "ask_for_threads"]

SETTLE_S = 0.03
"""Seconds to sleep after a timing: TVM's workers spin for some 15 ms and slow down what follows."""

_ONE_CORE_PER_THREAD = 1
"""TVM's affinity mode that its own thread pool starts with (``kBig``)."""


def ask_for_threads(threads: int) -> None:
    """Let TVM's pool use a number of threads, at most the number it was made with."""
    tvm.get_global_func("runtime.config_threadpool")(_ONE_CORE_PER_THREAD, threads)


class StockExecutor:
    """Stock ``GraphExecutor`` over loaded kernels, timed as the lane executor is.

    The graph is the one that ``relay.build`` made; ``lanes`` are those of
    :meth:`time_on_lanes_ns`.
    """

    def __init__(
        self,
        graph_json: str,
        library: KernelLibrary,
        params: Mapping[str, tvm.nd.NDArray],
        *,
        lanes: int,
    ) -> None:
        create = tvm.get_global_func("tvm.graph_executor.create")
        device = tvm.cpu()
        self.module = create(graph_json, library.module, device.device_type, device.device_id)
        set_input = self.module["set_input"]
        for name, value in params.items():
            set_input(name, value)
        self._library = library
        self._run = self.module["run"]
        self._launch = self._make_launch()
        self._pool = LanePool(library.runtime, lanes, get_last_error=TvmFunction.LAST_ERROR.address)
        self._program = self._pool.program([[ctypes.addressof(self._launch)]], [()])

    def time_ns(self, number: int, *, threads: int) -> int:
        """Nanoseconds of ``number`` back-to-back runs on as many threads of TVM's pool.

        At most as many threads as the pool was made with, which ``TVM_NUM_THREADS`` decides.
        """
        ask_for_threads(threads)
        timer = self.module.time_evaluator("run", tvm.cpu(), number=number, repeat=1)
        elapsed_ns = int(timer().mean * number * 1e9)
        if threads > 1:
            time.sleep(SETTLE_S)
        return elapsed_ns

    def time_on_lanes_ns(self, number: int) -> int:
        """Nanoseconds of ``number`` runs with all parallel regions sent to our lanes."""
        try:
            return self._pool.time_ns(self._program, number)
        except LaunchFailedError as failure:
            raise ExecutionError(
                f"stock TVM failed on our lanes: {failure.text.strip()}"
            ) from failure

    def set_input(self, name: str, value: Any) -> None:
        """Set one input by name."""
        self.module["set_input"](name, tvm.nd.array(value))

    def outputs(self) -> list[tvm.nd.NDArray]:
        """Copies of all outputs, after one run."""
        self._run()
        get_output = self.module["get_output"]
        return [
            get_output(index).copyto(tvm.cpu()) for index in range(self.module["get_num_outputs"]())
        ]

    def close(self) -> None:
        """Join the lanes; may be called twice."""
        self._pool.close()

    def _make_launch(self) -> NativeLaunch:
        """A launch whose kernel is a whole run of stock TVM."""
        runtime = self._library.runtime
        runtime.set_func_call(TvmFunction.CALL_PACKED.address)
        return NativeLaunch(kernel=runtime.call_packed, resource=packed_handle(self._run))
