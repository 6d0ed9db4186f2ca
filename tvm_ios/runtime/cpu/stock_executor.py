"""TVM's own executors on the same kernels: the baseline of every claim."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from typing import Any

import tvm

from tvm_ios.errors import ExecutionError
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.lane_pool import LanePool, LaunchFailedError
from tvm_ios.runtime.base.tvm_names import filled

__all__ = ["StockExecutor", "StockMachine", "ask_for_threads"]

SETTLE_S = 0.03
"""Seconds to sleep after a timing: TVM's workers spin for some 15 ms and slow down what follows."""

_ONE_CORE_PER_THREAD = 1
"""TVM's affinity mode that its own thread pool starts with (``kBig``)."""


def ask_for_threads(threads: int) -> None:
    """Let TVM's pool use a number of threads, at most the number it was made with."""
    tvm.get_global_func("runtime.config_threadpool")(_ONE_CORE_PER_THREAD, threads)


class _StockRuns:
    """Runs of a function of TVM without arguments, timed as the lane executor is.

    ``lanes`` are those of :meth:`time_on_lanes_ns`.
    """

    def __init__(self, module: Any, name: str, library: KernelLibrary, lanes: int) -> None:
        self.module = module
        """TVM's module of the executor."""
        self._name = name
        self._library = library
        self._run = module[name]
        runtime, convention = library.runtime, library.convention
        # A launch whose kernel is a whole run.
        self._launch = convention.launch(runtime, self._run)
        self._pool = LanePool(runtime, lanes, get_last_error=convention.last_error(runtime))
        self._program = self._pool.program([[ctypes.addressof(self._launch)]], [()])

    def time_ns(self, number: int, *, threads: int) -> int:
        """Nanoseconds of ``number`` back-to-back runs on as many threads of TVM's pool.

        At most as many threads as the pool was made with, which ``TVM_NUM_THREADS`` decides.
        """
        ask_for_threads(threads)
        timer = self.module.time_evaluator(self._name, tvm.cpu(), number=number, repeat=1)
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

    def close(self) -> None:
        """Join the lanes; may be called twice."""
        self._pool.close()


class StockExecutor(_StockRuns):
    """Stock ``GraphExecutor`` over loaded kernels; the graph is that of ``relay.build``."""

    def __init__(
        self, graph_json: str, library: KernelLibrary, params: Mapping[str, Any], *, lanes: int
    ) -> None:
        create = tvm.get_global_func("tvm.graph_executor.create")
        device = tvm.cpu()
        module = create(graph_json, library.module, device.device_type, device.device_id)
        set_input = module["set_input"]
        for name, value in params.items():
            set_input(name, value)
        super().__init__(module, "run", library, lanes)

    def set_input(self, name: str, value: Any) -> None:
        """Set one input by name."""
        self.module["set_input"](name, filled(value))

    def outputs(self) -> list[Any]:
        """Copies of all outputs, after one run."""
        self._run()
        get_output = self.module["get_output"]
        return [
            get_output(index).copyto(tvm.cpu()) for index in range(self.module["get_num_outputs"]())
        ]


class StockMachine(_StockRuns):
    """Stock Relax ``VirtualMachine`` over loaded kernels.

    ``library`` holds what ``tvm.compile`` made of a module; ``inputs`` are the values of the
    parameters of its ``main`` by name, in their order.
    """

    def __init__(self, library: KernelLibrary, inputs: Mapping[str, Any], *, lanes: int) -> None:
        from tvm.runtime.vm import VirtualMachine  # noqa: PLC0415 - TVM with Relay has none there

        machine = VirtualMachine(library.module, tvm.cpu())
        self._inputs = {name: filled(value) for name, value in inputs.items()}
        arrays = self._inputs.values()
        # A run that gives nothing back, as the launch of a kernel does not.
        machine.save_function("main", "tvm_ios_run", *arrays, include_return=False)
        self._main = machine["main"]
        super().__init__(machine.module, "tvm_ios_run", library, lanes)

    def set_input(self, name: str, value: Any) -> None:
        """Set one input by name."""
        self._inputs[name].copyfrom(value)

    def outputs(self) -> list[Any]:
        """Outputs of the model, after one run."""
        result = self._main(*self._inputs.values())
        return [result] if hasattr(result, "numpy") else list(result)
