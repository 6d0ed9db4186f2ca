"""Executors of a plan: their protocol, and one that runs something else after another."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Protocol

from tvm_ios.plan.trace import TraceEvent

__all__ = ["PlanExecutor", "RestExecutor"]


class PlanExecutor(Protocol):
    """An executor of a plan; every method raises ExecutionError where a run fails."""

    def run(self) -> None:
        """Run every launch of the plan once."""
        ...

    def time_ns(self, number: int) -> int:
        """Nanoseconds of ``number`` back-to-back runs."""
        ...

    def trace(self, runs: int | None = None) -> list[TraceEvent]:
        """The launches of the last of several runs, with lane and times, by start time."""
        ...

    def close(self) -> None:
        """Give back threads, streams and memory; may be called twice."""
        ...


class RestExecutor:
    """Executor of a plan after each of whose runs the rest of the model runs.

    Times are of both. A trace is of the plan alone.
    """

    def __init__(self, executor: PlanExecutor, rest: Callable[[], None]) -> None:
        self._executor = executor
        self._rest = rest
        self._running = Lock()
        """Held during a run: the rest reads what the next run of the plan would overwrite."""

    def run(self) -> None:
        """Run the plan once, and then the rest."""
        with self._running:
            self._executor.run()
            self._rest()

    def time_ns(self, number: int) -> int:
        """Nanoseconds of ``number`` back-to-back runs."""
        begin_ns = time.perf_counter_ns()
        for _ in range(number):
            self.run()
        return time.perf_counter_ns() - begin_ns

    def trace(self, runs: int | None = None) -> list[TraceEvent]:
        """The launches of the plan in the last of several runs, by start time."""
        return self._executor.trace(runs)

    def close(self) -> None:
        """Close the executor of the plan; may be called twice."""
        self._executor.close()
