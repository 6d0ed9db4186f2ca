"""Prices for a CPU that is not there, by the number of its cores: an analytical cost model.

Kernels are timed by a roofline (``cpu_kernel.py``); lanes that no group needs help the group that
takes longest, as our executor lets them. Prices are whole nanoseconds, the same on every machine;
``docs/cpu-model.md`` has how far they are from measurements.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios_lab.analytical.cpu import CPU
from tvm_ios_lab.analytical.cpu_kernel import CpuKernel
from tvm_ios_lab.analytical.gpu_work import KernelWork, merge_members, merged_work, works_for

__all__ = ["AnalyticalCpuCost"]


class AnalyticalCpuCost:
    """Prices stages by formula; a :class:`~tvm_ios.cost.protocol.CostModel`.

    Parameters
    ----------
    cpu
        CPU that the stages would run on, a lane each core.
    works
        Kernels of every operator of the graph, by operator index, where they are known better than
        the operators themselves tell.
    """

    def __init__(self, cpu: CPU, *, works: Sequence[Sequence[KernelWork]] | None = None) -> None:
        self.cpu = cpu
        self._works = works
        self._graph: OperatorGraph | None = None
        self._kernels: list[list[CpuKernel]] = []
        self._near: list[list[tuple[float, ...]]] = []
        """Times of every kernel by lanes, its data near; `_away` has those of data elsewhere."""
        self._away: list[list[tuple[float, ...]]] = []
        self._known: dict[tuple[tuple[int, ...], int, bool], float] = {}
        self._found: list[Sequence[KernelWork]] = []
        self._in_l3 = False

    @property
    def description(self) -> str:
        """Origin of the prices, for every report that shows them."""
        return (
            f"analytical model of {self.cpu.title} ({self.cpu.cores} cores), a prediction: nothing "
            "was measured"
        )

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
        """Latency of each stage, in nanoseconds."""
        self._read(graph)
        return [max(1, math.ceil(self._stage_ns(graph, stage))) for stage in stages]

    def lower_bound(self, graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
        """Nanoseconds that the price of each stage is never below.

        A stage takes as long as its longest group with all lanes, and as all its work dealt evenly.
        """
        self._read(graph)
        return [max(1, math.floor(self._bound_ns(graph, stage))) for stage in stages]

    def floors(
        self, graph: OperatorGraph, stages: Sequence[Stage], prices_ns: Sequence[int]
    ) -> list[int]:
        """Nanoseconds that no stage costs less than that contains the stage of this price.

        With a small kernel in front a group may cost less, for only its first one fetches its data.
        So it is a price without that; merges and single operators give no floor, as lower bounds
        say as much of them.
        """
        del prices_ns
        self._read(graph)
        return [
            0
            if stage.is_merge or len(stage.operators) == 1
            else math.floor(self._stage_ns(graph, stage, first=False))
            for stage in stages
        ]

    def operators_ns(self, graph: OperatorGraph, *, lanes: int) -> list[int]:
        """Time of each operator on so many lanes, in nanoseconds; 0 where it needs no kernel.

        More lanes than cores are as many as cores.
        """
        self._read(graph)
        place = min(lanes, self.cpu.cores) - 1
        return [math.ceil(sum(times_ns[place] for times_ns in row)) for row in self._near]

    def unsplit(self, graph: OperatorGraph) -> tuple[int, ...]:
        """Operators that are faster on one lane than on all of them, one after another."""
        alone, helped = (self.operators_ns(graph, lanes=each) for each in (1, self.cpu.cores))
        return tuple(index for index in range(len(graph)) if alone[index] == helped[index])

    def _read(self, graph: OperatorGraph) -> None:
        if self._graph is graph:
            return
        works = works_for(graph, self._works)
        weights = sum(work.weight_bytes for row in works for work in row)
        self._in_l3 = weights <= self.cpu.l3_bytes
        self._graph, self._found = graph, list(works)
        self._kernels = [[self._kernel(work) for work in row] for row in works]
        away = 1 - 1 / self.cpu.cores
        self._near, self._away = (
            [[kernel.fastest(self.cpu, away=share) for kernel in row] for row in self._kernels]
            for share in (0.0, away)
        )
        self._known = {}

    def _kernel(self, work: KernelWork) -> CpuKernel:
        return CpuKernel.make(work, self.cpu, weights_in_l3=self._in_l3)

    def _stage_ns(self, graph: OperatorGraph, stage: Stage, *, first: bool = True) -> float:
        if stage.is_merge:
            return self._merged(graph, stage.operators).fastest(self.cpu, away=0.0)[-1]
        groups = self._groups_of(stage)
        in_order_ns = self._sum_ns(groups)
        if len(groups) < 2 or self.cpu.cores == 1:
            return in_order_ns
        return min(self._side_by_side_ns(groups, first=first), in_order_ns) + self.cpu.signal_ns

    def _bound_ns(self, graph: OperatorGraph, stage: Stage) -> float:
        groups = self._groups_of(stage)
        if stage.is_merge or len(groups) < 2 or self.cpu.cores == 1:
            return self._stage_ns(graph, stage)
        cores = self.cpu.cores
        longest_ns = max(self._group_ns(group, cores, first=False) for group in groups)
        work_ns = sum(k.core_ns for group in groups for i in group for k in self._kernels[i])
        return max(longest_ns, work_ns / cores) + self.cpu.signal_ns

    def _groups_of(self, stage: Stage) -> list[tuple[int, ...]]:
        """The groups that have kernels."""
        return [group for group in stage.groups if any(self._kernels[index] for index in group)]

    def _sum_ns(self, groups: Sequence[tuple[int, ...]]) -> float:
        return sum(self._group_ns(group, self.cpu.cores, first=False) for group in groups)

    def _side_by_side_ns(self, groups: Sequence[tuple[int, ...]], *, first: bool) -> float:
        """Groups at the same time: lanes one by one to whoever takes longest, or groups to lanes.

        The bytes of all pass one memory.
        """
        cores = self.cpu.cores
        bytes_ = sum(k.memory_bytes for group in groups for i in group for k in self._kernels[i])
        memory_ns = bytes_ / self.cpu.memory_gb_per_s
        longest = [(-self._group_ns(group, 1, first=first), 1, group) for group in groups]
        if len(groups) >= cores:
            return max(memory_ns, _packed([-time for time, _, _ in longest], cores))
        heapq.heapify(longest)
        for _ in range(cores - len(groups)):
            _, lanes, group = longest[0]
            time_ns = self._group_ns(group, lanes + 1, first=first)
            heapq.heapreplace(longest, (-time_ns, lanes + 1, group))
        return max(memory_ns, -longest[0][0])

    def _group_ns(self, group: tuple[int, ...], lanes: int, *, first: bool) -> float:
        """A group on so many lanes; what its first kernel reads was written by any lane.

        Parameters
        ----------
        first
            Whether that counts: it does not where all lanes work on one kernel after another.
        """
        key = (group, lanes, first)
        if key not in self._known:
            times_ns = [each[lanes - 1] for index in group for each in self._near[index]]
            if first:
                head = next(index for index in group if self._kernels[index])
                times_ns[0] = self._away[head][0][lanes - 1]
            self._known[key] = sum(times_ns)
        return self._known[key]

    def _merged(self, graph: OperatorGraph, members: Sequence[int]) -> CpuKernel:
        """The one convolution that all members become."""
        return self._kernel(merged_work(*merge_members(graph, self._found, members)))


def _packed(times_ns: Sequence[float], lanes: int) -> float:
    """Time at which the last lane is done; the longest groups go first, to the first free lane."""
    free = [0.0] * lanes
    for time_ns in sorted(times_ns, reverse=True):
        heapq.heapreplace(free, free[0] + time_ns)
    return max(free)
