"""The seam between prices and the runner of stages: lanes, streams, or a fake."""

from __future__ import annotations

from typing import Protocol

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage

__all__ = ["StageRunner", "TimedStage"]


class TimedStage(Protocol):
    """A stage that is ready to run; freed when it is dropped."""

    def time_ns(self, number: int, /) -> int:
        """Nanoseconds of ``number`` back-to-back runs."""
        ...


class StageRunner(Protocol):
    """A runner of single stages of a graph, with kernels and buffers in place."""

    def prepare(self, graph: OperatorGraph, stage: Stage) -> TimedStage:
        """Make a stage ready to run."""
        ...

    def ping_pong_ns(self) -> float:
        """Nanoseconds of a core-to-core hand-off between two lanes; 0 with one lane."""
        ...
