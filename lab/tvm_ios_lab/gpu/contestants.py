"""Everything that runs one network: our exported schedules, TVM's own executors, PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm.contrib import graph_executor

from tvm_ios.cost.database import open_database
from tvm_ios.measure.sampling import TimedRuns
from tvm_ios.runtime.artifact.artifact import read_plan
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.cuda.module import CudaGraphModule
from tvm_ios_lab.gpu.agenda import Case, Kernels
from tvm_ios_lab.gpu.names import (
    GRAPH,
    SCHEDULES,
    STREAMS,
    TVM,
    TVM_GRAPH,
    our_name,
)
from tvm_ios_lab.gpu.workplace import Workplace

__all__ = ["Entry", "entries", "opened", "stock_runs"]

_CREATE_GRAPH = "tvm.graph_executor_cuda_graph.create"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Schedule of ours on some kernels."""

    kernels: Kernels
    who: str
    path: Path

    def name(self, way: str) -> str:
        """Name of the contestant in results."""
        return our_name(self.kernels, self.who, way)


def entries(place: Workplace, case: Case, kernels: Sequence[Kernels]) -> list[Entry]:
    """Contestants of ours that were exported; a list that is best on one lane is not."""
    exported = {
        each: place.ledger.data(f"{case.name}.lower.{each.value}").get("launches", ())
        for each in kernels
    }
    return [
        Entry(kernels=each, who=who, path=place.exported(case, each, who))
        for each, names in exported.items()
        for who in SCHEDULES
        if who in names
    ]


@contextmanager
def opened(
    place: Workplace, entry: Entry, name: str, image: NDArray[np.float32]
) -> Iterator[dict[str, CudaGraphModule]]:
    """Open both executors of one of ours, by way, on the same kernels and weights, input in place.

    cuDNN's algorithms come from the prices, so both use the same.
    """
    store = open_database(place.database)
    library = KernelLibrary(entry.path)
    graph_params = library.module["get_graph_params"]()
    params = {str(key): tvm.nd.array(value, tvm.cuda(0)) for key, value in graph_params.items()}
    with ExitStack() as stack:
        modules = {}
        for way in (STREAMS, GRAPH):
            module = CudaGraphModule(
                read_plan(library.path), library, params, cuda_graph=way == GRAPH, store=store
            )
            stack.callback(module.close)
            module.set_input(name, image)
            modules[way] = module
        yield modules


@contextmanager
def stock_runs(path: Path, name: str, image: NDArray[np.float32]) -> Iterator[dict[str, TimedRuns]]:
    """TVM's own executors of a file that ``relay.build`` made, timed by TVM with events."""
    with ExitStack() as stack:
        library = tvm.runtime.load_module(str(path))
        plain = graph_executor.GraphModule(library["default"](tvm.cuda(0)))
        found: dict[str, TimedRuns] = {}
        makers: dict[str, Callable[[], Any]] = {TVM: lambda: plain}
        if tvm.get_global_func(_CREATE_GRAPH, allow_missing=True) is not None:
            makers[TVM_GRAPH] = lambda: _captured(library, name, image)
        for who, make in makers.items():
            module = make()
            module.set_input(name, tvm.nd.array(image))
            function = "run" if who == TVM else "run_cuda_graph"
            found[who] = partial(_time_ns, module.module, function)
        stack.callback(found.clear)
        yield found


def _captured(library: tvm.runtime.Module, name: str, image: NDArray[np.float32]) -> Any:
    from tvm.contrib.cuda_graph.cuda_graph_executor import GraphModuleCudaGraph  # noqa: PLC0415

    module = GraphModuleCudaGraph(library["cuda_graph_create"](tvm.cuda(0)))
    module.set_input(name, tvm.nd.array(image))
    module.capture_cuda_graph()
    return module


def _time_ns(module: tvm.runtime.Module, function: str, number: int) -> int:
    timer = module.time_evaluator(function, tvm.cuda(0), number=number, repeat=1)
    return int(timer().mean * number * 1e9)
