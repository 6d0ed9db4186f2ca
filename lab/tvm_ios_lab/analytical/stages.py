"""Prices of the stages of one graph on one GPU, for the analytical cost model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tvm_ios.core.graph import Convolution, OperatorGraph, bits_of
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios_lab.analytical.gpu import GPU
from tvm_ios_lab.analytical.gpu_kernel import RESOURCES, Kernels, kernel_time
from tvm_ios_lab.analytical.gpu_sharing import (
    LaunchedKernel,
    kernels_in_order,
    share_gpu,
    share_gpu_in_order,
)
from tvm_ios_lab.analytical.gpu_work import (
    KernelWork,
    copy_work,
    merge_members,
    merged_work,
    product_of,
)

__all__ = ["Launching", "OperatorSpan", "StagePrices"]


class Launching(Enum):
    """Way in which kernels are launched, and the groups of a stage join."""

    GRAPH = "graph"
    """Everything captured in one CUDA graph."""
    STREAMS = "streams"
    """Launches by one host thread, kernel after kernel; streams wait for each other's events."""
    SYNCHRONISED = "synchronised"
    """Streams, but the host waits for the device after a stage of several groups, as the runtime
    of the published system does."""

    def launch_ns(self, gpu: GPU) -> int:
        """Time from the end of a kernel to the first instruction of the next one."""
        return gpu.graph_launch_ns if self is Launching.GRAPH else gpu.stream_launch_ns

    def issue_ns(self, gpu: GPU) -> int:
        """Host time between two launches."""
        return 0 if self is Launching.GRAPH else gpu.issue_ns

    def join_ns(self, gpu: GPU) -> int:
        """Nanoseconds that a stage of several groups costs on top of them.

        After a device-wide wait no kernel is queued, so the first one waits for its launch as well.
        """
        waits = self is Launching.SYNCHRONISED
        return gpu.synchronise_ns + gpu.issue_ns if waits else gpu.event_ns


@dataclass(frozen=True, slots=True)
class OperatorSpan:
    """Time in which an operator is busy, in nanoseconds since its stage began."""

    operators: tuple[int, ...]
    """Number of the operator, or numbers of all members of a merge."""
    group: int
    start_ns: float
    end_ns: float


@dataclass(frozen=True, slots=True)
class _Group:
    """Facts of a group that every stage with it needs."""

    kernels: tuple[LaunchedKernel, ...]
    alone_ns: int
    """Time of the group by itself, rounded up."""
    demand_ns: tuple[float, ...]
    """Total demand of the group on each resource."""
    peak_rates: tuple[float, ...]
    """The most it ever takes of each resource."""


class StagePrices:
    """Prices stages of one graph.

    Parameters
    ----------
    works
        The kernels of each.
    """

    def __init__(
        self,
        graph: OperatorGraph,
        works: Sequence[Sequence[KernelWork]],
        gpu: GPU,
        launching: Launching,
        kernels: Kernels,
    ) -> None:
        self.graph = graph
        self._works = works
        self._gpu = gpu
        self._tiles = kernels
        self._issue_ns = launching.issue_ns(gpu)
        self._launch_ns = launching.launch_ns(gpu)
        self._join_ns = launching.join_ns(gpu)
        self._weights_in_l2 = gpu.l2_bytes >= _bytes_of_a_run(works)
        self._launched = [self._launch(row) for row in works]
        self._groups: dict[tuple[int, ...], _Group] = {}
        self._readers = graph.successor_masks()

    def price(self, stage: Stage) -> int:
        """Latency of a stage in whole nanoseconds."""
        if stage.is_merge:
            return self._merge_price(stage)
        groups = self._groups_of(stage)
        bound_ns = self._bound_ns(groups)
        if len(groups) < 2 or (not self._issue_ns and _fit_together(groups)):
            return bound_ns
        spans = share_gpu([group.kernels for group in groups], self._issue_ns)
        end_ns = max([row[-1][1] for row in spans])
        return max(bound_ns, math.ceil(end_ns) + self._join_ns)

    def lower_bound(self, stage: Stage) -> int:
        """Bound that :meth:`price` is never below; much cheaper to have."""
        if stage.is_merge:
            return self._merge_price(stage)
        return self._bound_ns(self._groups_of(stage))

    def spans(self, stage: Stage) -> list[OperatorSpan]:
        """Times in which every operator of a stage is busy."""
        if stage.is_merge:
            kernels = [self._merged_kernels(stage.operators)]
            counts = [[(stage.operators, len(kernels[0]))]]
        else:
            kernels = [list(self._group(group).kernels) for group in stage.groups]
            counts = [
                [((index,), len(self._launched[index])) for index in group]
                for group in stage.groups
            ]
        found = []
        for group, (busy, row) in enumerate(
            zip(share_gpu(kernels, self._issue_ns), counts, strict=True)
        ):
            done, now = 0, 0.0
            for operators, count in row:
                start = busy[done][0] if count else now
                done += count
                now = busy[done - 1][1] if count else now
                found.append(OperatorSpan(operators, group, start, now))
        return found

    def list_spans(self, schedule: InterOpSchedule) -> list[OperatorSpan]:
        """Times in which every operator of a list is busy, since it began; lanes are groups.

        A stream waits for an event where an operator reads what another stream wrote.
        """
        streams: list[list[LaunchedKernel]] = [[] for _ in range(schedule.num_home_lanes)]
        issued: list[list[float]] = [[] for _ in streams]
        after: list[list[list[tuple[int, int]]]] = [[] for _ in streams]
        done: dict[int, frozenset[tuple[int, int]]] = {}
        """Kernels that the readers of each operator wait for, those behind views as well."""
        rows = []
        count = 0
        tasks = [
            operators
            for stage in schedule.stages
            for operators in (
                [stage.operators] if stage.is_merge else [(i,) for g in stage.groups for i in g]
            )
        ]
        for operators in tasks:
            home = schedule.home_lanes[operators[0]]
            merged = len(operators) > 1
            kernels = self._merged_kernels(operators) if merged else self._launched[operators[0]]
            reads = {i for o in operators for i in self.graph.operators[o].predecessors}
            before = frozenset(each for i in reads - set(operators) for each in done[i])
            first = len(streams[home])
            for place, kernel in enumerate(kernels):
                streams[home].append(kernel)
                issued[home].append(count * self._issue_ns)
                # A stream keeps its order, so events are of other streams only.
                others = [each for each in before if each[0] != home]
                after[home].append([] if place else others)
                count += 1
            last = frozenset({(home, len(streams[home]) - 1)}) if kernels else before
            done |= dict.fromkeys(operators, last)
            rows.append((operators, home, first, len(streams[home])))
        busy = share_gpu_in_order(streams, issued, after, event_ns=self._join_ns)
        return [
            OperatorSpan(
                operators,
                home,
                busy[home][first][0] if first < end else 0.0,
                busy[home][end - 1][1] if first < end else 0.0,
            )
            for operators, home, first, end in rows
        ]

    def _bound_ns(self, groups: Sequence[_Group]) -> int:
        if not groups:
            return 0
        longest_ns = max([group.alone_ns for group in groups])
        issued_ns = self._issue_ns * sum([len(group.kernels) for group in groups])
        wanted_ns = max([sum(row) for row in zip(*[g.demand_ns for g in groups], strict=True)])
        join_ns = self._join_ns if len(groups) > 1 else 0
        return max(longest_ns, issued_ns, int(wanted_ns)) + join_ns

    def _groups_of(self, stage: Stage) -> list[_Group]:
        """The groups that have kernels."""
        groups = [self._group(group) for group in stage.groups]
        return [group for group in groups if group.kernels]

    def _group(self, operators: tuple[int, ...]) -> _Group:
        known = self._groups.get(operators)
        if known is None:
            kernels = tuple(kernel for index in operators for kernel in self._launched[index])
            known = self._groups[operators] = self._make_group(kernels)
        return known

    def _make_group(self, kernels: tuple[LaunchedKernel, ...]) -> _Group:
        by_resource = range(len(RESOURCES))
        return _Group(
            kernels=kernels,
            alone_ns=math.ceil(kernels_in_order(kernels, self._issue_ns)),
            demand_ns=tuple(
                sum(kernel.rates[resource] * kernel.busy_ns for kernel in kernels)
                for resource in by_resource
            ),
            peak_rates=tuple(
                max((kernel.rates[resource] for kernel in kernels), default=0.0)
                for resource in by_resource
            ),
        )

    def _launch(self, works: Sequence[KernelWork]) -> list[LaunchedKernel]:
        return [
            LaunchedKernel.make(
                kernel_time(
                    work, self._gpu, kernels=self._tiles, weights_in_l2=self._weights_in_l2
                ),
                self._launch_ns,
            )
            for work in works
        ]

    def _merge_price(self, stage: Stage) -> int:
        merged = self._make_group(tuple(self._merged_kernels(stage.operators)))
        return max(1, self._bound_ns([merged]) - self._concatenations_saved_ns(stage))

    def _merged_kernels(self, members: Sequence[int]) -> list[LaunchedKernel]:
        """The merged convolution, its bias if that is a kernel, and slices that are copied."""
        convolutions, works = merge_members(self.graph, self._works, members)
        merged = merged_work(convolutions, works)
        biases = [] if self._works[members[0]][-1] is works[0] else [copy_work(merged)]
        copies = [] if _images(convolutions[0], works[0]) == 1 else [copy_work(w) for w in works]
        return self._launch([merged, *biases, *copies])

    def _concatenations_saved_ns(self, stage: Stage) -> int:
        """Nanoseconds of concatenations of this merge's outputs alone, which then need no kernel.

        Only at batch one, where these outputs lie one after another.
        """
        members = stage.operators
        first = self.graph.operators[members[0]].convolution
        if first is None or _images(first, product_of(self._works[members[0]])) > 1:
            return 0
        inside = frozenset(members)
        return sum(
            self.price(Stage(((index,),)))
            for index in self._readers_of(members)
            if inside.issuperset(self.graph.operators[index].predecessors)
            and self._is_concatenation(index)
        )

    def _readers_of(self, operators: Sequence[int]) -> list[int]:
        mask = 0
        for index in operators:
            mask |= self._readers[index]
        return list(bits_of(mask))

    def _is_concatenation(self, index: int) -> bool:
        """Whether an operator does nothing but lay its inputs one after another."""
        works, operator = self._works[index], self.graph.operators[index]
        reads = operator.predecessors
        if len(works) != 1 or len(reads) < 2:
            return False
        # A recorded copy counts half a multiply-add, as much as a rectifier in an operator of TVM.
        copies = not operator.flops if operator.output_elements else works[0].depth <= 0.5
        return copies and works[0].outputs == sum(
            self._works[i][-1].outputs for i in reads if self._works[i]
        )


def _fit_together(groups: Sequence[_Group]) -> bool:
    """Whether the groups never want more of anything than there is."""
    return all(
        sum(rates) <= 1 for rates in zip(*[group.peak_rates for group in groups], strict=True)
    )


def _images(convolution: Convolution, work: KernelWork) -> int:
    """The batch size, which only the work knows."""
    return max(1, work.rows // max(1, math.prod(convolution.output_size)))


def _bytes_of_a_run(works: Sequence[Sequence[KernelWork]]) -> int:
    """Bytes of all weights, and of the activations of the kernel that has most."""
    kernels = [kernel for row in works for kernel in row]
    weights = sum(kernel.weight_bytes for kernel in kernels)
    return weights + max((kernel.activation_bytes for kernel in kernels), default=0)
