"""The published system on a GPU that is not there: its kernels, runtime and schedules, by formula.

The published IOS ran on cuDNN 7 with streams and device-wide waits. The analytical model is told
so, to be held against the published measurements; a GPU of today gets a CUDA graph and tuned
kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from tvm_ios.core.endings import EndingRule
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.partition import Partition, ScheduleBlock
from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.result import SearchResult
from tvm_ios_lab.analytical.gpu import GPU
from tvm_ios_lab.analytical.gpu_work import KernelWork, copy_work, recorded_work
from tvm_ios_lab.analytical.timeline_model import AnalyticalGpuCost, Kernels, Launching
from tvm_ios_lab.problems.problem import RecordedPart
from tvm_ios_lab.problems.synthetic import PrimitiveWork

__all__ = ["SCHEDULERS", "SYSTEMS", "GpuSystem", "RememberedPrices", "published_kernels"]

SCHEDULERS: Mapping[str, frozenset[Strategy] | None] = {
    "sequential": None,
    "greedy": None,
    "IOS-merge": frozenset({Strategy.MERGE}),
    "IOS-parallel": frozenset({Strategy.CONCURRENT}),
    "IOS-both": frozenset(Strategy),
}
"""The five schedules of the paper, and which kinds of stages are searched for each."""
CUDNN_CALL_NS = 7000
"""Host time of a cuDNN 7 call with its launch; a bare launch takes about 4500 ns there. Chosen with
the published results in view, as ACHIEVABLE_ARITHMETIC is; the same for all networks."""


class RememberedPrices:
    """Prices of a model that are computed once: searches of one graph ask for many twice.

    Parameters
    ----------
    model
        Computes them.
    """

    def __init__(self, model: AnalyticalGpuCost) -> None:
        self.model = model
        self._prices: dict[Stage, int] = {}
        self._bounds: dict[Stage, int] = {}

    @property
    def description(self) -> str:
        """Origin of the prices."""
        return self.model.description

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
        """Latency of each stage in nanoseconds; errors are those of the model."""
        return _remembered(self._prices, partial(self.model.price, graph), stages)

    def lower_bound(self, graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
        """Nanoseconds that the price of each stage is never below."""
        return _remembered(self._bounds, partial(self.model.lower_bound, graph), stages)

    def floors(
        self, graph: OperatorGraph, stages: Sequence[Stage], prices_ns: Sequence[int]
    ) -> list[int]:
        """Nanoseconds that no stage costs less than that contains the stage of this price."""
        return self.model.floors(graph, stages, prices_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSystem:
    """A GPU with a runtime and kernels on it."""

    gpu: GPU
    published: bool
    """Whether it is the published system: cuDNN 7, device-wide waits, biases in kernels of their
    own, and the endings of its code. Else a CUDA graph of tuned kernels."""

    @property
    def description(self) -> str:
        """The runtime in words."""
        return "published runtime" if self.published else "CUDA graph, tuned kernels"

    def model(self, part: RecordedPart, batch_size: int = 1) -> RememberedPrices:
        """Prices of the stages of a part of a network, kept for all searches of it."""
        return RememberedPrices(self._model(part, batch_size))

    def _model(self, part: RecordedPart, batch_size: int) -> AnalyticalGpuCost:
        if not self.published:
            works = [
                recorded_work(_scaled(rows, batch_size), operator.convolution)
                for rows, operator in zip(part.works, part.graph.operators, strict=True)
            ]
            return AnalyticalGpuCost(self.gpu, works=works)
        return AnalyticalGpuCost(
            replace(self.gpu, issue_ns=CUDNN_CALL_NS),
            launching=Launching.SYNCHRONISED,
            kernels=Kernels.LIBRARY,
            works=published_kernels(part, batch_size),
        )

    def search(
        self,
        part: RecordedPart,
        model: RememberedPrices,
        options: SearchOptions,
        *,
        lazy: bool = True,
    ) -> SearchResult:
        """The IOS schedule of a part, which is one block, as in the published code."""
        rule = EndingRule.PUBLISHED if self.published else EndingRule.COMPLETE
        graph = part.graph
        whole = Partition(blocks=(ScheduleBlock(operators=tuple(range(len(graph)))),))
        options = replace(options, endings=rule, centred_merges=True)
        return search_ios(graph, model, options, lazy=lazy, partition=whole)

    def schedule(
        self, part: RecordedPart, model: RememberedPrices, scheduler: str
    ) -> InterOpSchedule:
        """The schedule that one of :data:`SCHEDULERS` makes of a part."""
        strategies = SCHEDULERS[scheduler]
        if strategies is not None:
            return self.search(part, model, SearchOptions(strategies=strategies)).schedule
        return (sequential_schedule if scheduler == "sequential" else greedy_schedule)(part.graph)

    def run_ns(self, part: RecordedPart, model: RememberedPrices, schedule: InterOpSchedule) -> int:
        """Time of a run; the published runtime also waits before a stage of several groups."""
        total = sum(model.price(part.graph, schedule.stages))
        wait_ns = model.model.launching.join_ns(model.model.gpu) if self.published else 0
        return total + _waits_before(schedule.stages) * wait_ns


SYSTEMS: Mapping[str, GpuSystem] = {
    "V100": GpuSystem(gpu=GPU.by_name("v100"), published=True),
    "K80": GpuSystem(gpu=GPU.by_name("k80"), published=True),
    "H100": GpuSystem(gpu=GPU.by_name("h100"), published=False),
}
"""Systems that experiments compute: both GPUs of the paper, and one of today."""


def published_kernels(part: RecordedPart, batch_size: int) -> list[tuple[KernelWork, ...]]:
    """The kernels of every operator on the published runtime.

    It adds the bias of a convolution that has no activation by a kernel of its own, which recorded
    problems do not count.
    """
    operators = []
    for rows, operator in zip(part.works, part.graph.operators, strict=True):
        works = recorded_work(_scaled(rows, batch_size), operator.convolution)
        without_bias = len(works)
        if operator.convolution is not None:
            without_bias -= operator.convolution.epilogue == "identity"
        elif len(rows) > 1:  # a rectifier, maybe of a sum, and the convolutions behind it
            without_bias = rows[0].kernels
        kernels = list(works[:without_bias])
        for work in works[without_bias:]:
            kernels += [work, copy_work(work)]
        operators.append(tuple(kernels))
    return operators


def _remembered(
    known: dict[Stage, int],
    compute: Callable[[Sequence[Stage]], Sequence[int]],
    stages: Sequence[Stage],
) -> list[int]:
    missing = [stage for stage in stages if stage not in known]
    known.update(zip(missing, compute(missing), strict=True))
    return [known[stage] for stage in stages]


def _scaled(rows: Sequence[PrimitiveWork], batch_size: int) -> list[PrimitiveWork]:
    return [
        PrimitiveWork(batch_size * row.work, batch_size * row.output_elements, row.kernels)
        for row in rows
    ]


def _waits_before(stages: Sequence[Stage]) -> int:
    parallel = [len(s.groups) > 1 and s.strategy is Strategy.CONCURRENT for s in stages]
    return sum(after and not before for before, after in pairwise(parallel))
