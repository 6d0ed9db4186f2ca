"""A stage runner without a machine: known latencies, seeded noise, mode switches.

It keeps its own time, so measuring policies run in no time and are reproducible.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage

__all__ = ["FakeStage", "FakeStageRunner"]


@dataclass
class FakeStage:
    """A stage on a simulated machine."""

    runner: FakeStageRunner
    graph: OperatorGraph
    stage: Stage

    def time_ns(self, number: int) -> int:
        """Simulated nanoseconds of ``number`` runs."""
        return self.runner.time_ns(self.graph, self.stage, number)


class FakeStageRunner:
    """Machine that is simulated; pass :meth:`clock_ns` and :meth:`sleep_s` to whatever measures.

    Parameters
    ----------
    latency_ns
        True latency of a stage in nanoseconds.
    noise
        Standard deviation of a sample, as a fraction.
    spike_rate
        Chance that a sample loses ``spike_ns`` to another process.
    slow_spans_s
        Slow mode of the machine: pairs of begin and end in simulated seconds.
    slow_factor
        Factor by which a stage takes longer then.
    busy_spans_s
        Spans in which another process has a core: a sample that begins there takes twice as long,
        and its lanes wait for half of it. No ping-pong shows that.
    lanes
        Number of lanes; with one there is no ping-pong.
    seed
        Equal seeds give equal histories.
    """

    def __init__(
        self,
        latency_ns: Callable[[OperatorGraph, Stage], float],
        *,
        noise: float = 0.0,
        spike_rate: float = 0.0,
        spike_ns: float = 4e6,
        slow_spans_s: Sequence[tuple[float, float]] = (),
        slow_factor: float = 1.8,
        busy_spans_s: Sequence[tuple[float, float]] = (),
        lanes: int = 2,
        seed: int = 0,
    ) -> None:
        self._latency_ns = latency_ns
        self._noise = noise
        self._spike_rate = spike_rate
        self._spike_ns = spike_ns
        self._slow_spans_s = tuple(slow_spans_s)
        self._slow_factor = slow_factor
        self._busy_spans_s = tuple(busy_spans_s)
        self._lanes = lanes
        self._random = random.Random(seed)
        self._now_ns = 0
        self._waited_ns = 0
        self.prepared: list[Stage] = []
        """Stages that were prepared, in order."""
        self.timed: list[tuple[Stage, int]] = []
        """Timings in order: the stage and its number of runs."""

    def clock_ns(self) -> int:
        """Simulated time in nanoseconds."""
        return self._now_ns

    def sleep_s(self, seconds: float) -> None:
        """Let simulated time pass."""
        self._now_ns += round(seconds * 1e9)

    def prepare(self, graph: OperatorGraph, stage: Stage) -> FakeStage:
        """Stage that is timed by this machine; nothing is prepared."""
        self.prepared.append(stage)
        return FakeStage(self, graph, stage)

    def time_ns(self, graph: OperatorGraph, stage: Stage, number: int) -> int:
        """Simulated nanoseconds of ``number`` runs."""
        self.timed.append((stage, number))
        total_ns = number * self._latency_ns(graph, stage)
        total_ns *= self._slow_factor if self._slow() else 1.0
        total_ns *= max(0.1, self._random.gauss(1.0, self._noise))
        if self._random.random() < self._spike_rate:
            total_ns += self._spike_ns
        if self._within(self._busy_spans_s):
            self._waited_ns += round(total_ns)
            total_ns *= 2
        self._now_ns += round(total_ns)
        return round(total_ns)

    def ping_pong_ns(self) -> float:
        """Ping-pong in nanoseconds: about 50, in the slow mode about 380."""
        if self._lanes == 1:
            return 0.0
        self._now_ns += 50_000
        return (380.0 if self._slow() else 50.0) * self._random.uniform(0.9, 1.15)

    def waited_ns(self) -> int | None:
        """Nanoseconds that lanes waited for a core so far."""
        return self._waited_ns

    def _slow(self) -> bool:
        return self._within(self._slow_spans_s)

    def _within(self, spans_s: Sequence[tuple[float, float]]) -> bool:
        now_s = self._now_ns / 1e9
        return any(begin <= now_s < end for begin, end in spans_s)
