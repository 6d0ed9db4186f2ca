"""The seam between a measuring cost model and the runner of stages: an executor, or a fake."""

from __future__ import annotations

from typing import Any, Protocol

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage

__all__ = ["StageRunner"]


class StageRunner(Protocol):
    """A runner of single stages of a graph, with kernels and buffers in place."""

    def prepare(self, graph: OperatorGraph, stage: Stage) -> Any:
        """Make a stage ready to run; the handle is opaque and freed when it is dropped."""
        ...

    def time_ns(self, handle: Any, number: int) -> int:
        """Nanoseconds of ``number`` back-to-back runs."""
        ...

    def ping_pong_ns(self) -> float:
        """Nanoseconds of a core-to-core hand-off between two lanes; 0 with one lane."""
        ...
