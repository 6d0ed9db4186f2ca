"""Prices for a GPU that is not there: an analytical cost model, to search schedules anywhere.

Kernels are timed by occupancy and roofline (``gpu_kernel.py``), concurrent groups by a fluid
simulation (``gpu_sharing.py``). Prices are whole nanoseconds, the same on every machine. They tell
which schedule is better, not what latency to promise; ``docs/gpu-model.md`` has how far they are
from measurements.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios_lab.analytical.gpu import GPU
from tvm_ios_lab.analytical.gpu_kernel import Kernels
from tvm_ios_lab.analytical.gpu_work import KernelWork, works_for
from tvm_ios_lab.analytical.stages import Launching, StagePrices
from tvm_ios_lab.analytical.timeline import SimulatedOperator, SimulatedRun

__all__ = ["AnalyticalGpuCost", "Kernels", "Launching"]


class AnalyticalGpuCost:
    """Prices stages by formula; a :class:`~tvm_ios.cost.protocol.CostModel` with lower bounds.

    Parameters
    ----------
    gpu
        GPU that the stages would run on, or its name.
    kernels
        Kernels to price: tuned ones, or those of a library.
    works
        Kernels of every operator of the graph, by operator index, where they are known better than
        the operators themselves tell (see :func:`~tvm_ios_lab.analytical.gpu_work.recorded_work`).
    """

    def __init__(
        self,
        gpu: GPU | str,
        *,
        launching: Launching = Launching.GRAPH,
        kernels: Kernels = Kernels.TUNED,
        works: Sequence[Sequence[KernelWork]] | None = None,
    ) -> None:
        self.gpu = gpu if isinstance(gpu, GPU) else GPU.by_name(gpu)
        self.launching = launching
        self.kernels = kernels
        self._works = works
        self._stages: StagePrices | None = None

    @property
    def description(self) -> str:
        """Origin of the prices, for every report that shows them."""
        how = {
            Launching.GRAPH: "one CUDA graph",
            Launching.STREAMS: "streams",
            Launching.SYNCHRONISED: "streams and device-wide waits",
        }
        return (
            f"analytical model of {self.gpu.title} ({how[self.launching]}, {self.kernels.value} "
            "kernels), nothing was measured"
        )

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
        """Latency of each stage, in nanoseconds."""
        prices = self._prices_of(graph)
        return [prices.price(stage) for stage in stages]

    def lower_bound(self, graph: OperatorGraph, stages: Sequence[Stage]) -> list[int]:
        """Nanoseconds that the price of each stage is never below.

        A stage takes as long as its longest group alone, as everything it wants of one resource,
        and as the host needs to issue it; the simulation finds what it takes on top.
        """
        prices = self._prices_of(graph)
        return [prices.lower_bound(stage) for stage in stages]

    def floors(
        self, graph: OperatorGraph, stages: Sequence[Stage], prices_ns: Sequence[int]
    ) -> list[int]:
        """Nanoseconds that no stage costs less than that contains the stage of this price.

        A merge that makes a concatenation needless may cost less than a smaller merge or one
        convolution. So merges and single operators give no floor; lower bounds say as much of them.
        Where a host issues kernels, it takes groups by their lowest operators, and one more of
        these may put groups in a better order: all that holds is the bound. In a CUDA graph a price
        is a floor but for the anomalies that :mod:`~tvm_ios_lab.analytical.gpu_sharing` names.
        """
        prices = self._prices_of(graph)
        in_graph = self.launching is Launching.GRAPH
        return [
            0
            if stage.is_merge or len(stage.operators) == 1
            else price_ns
            if in_graph
            else prices.lower_bound(stage)
            for stage, price_ns in zip(stages, prices_ns, strict=True)
        ]

    def simulate(self, graph: OperatorGraph, schedule: InterOpSchedule) -> SimulatedRun:
        """Timeline of all operators of a schedule; stages take what they are priced at.

        A list runs as one stage whose groups are its streams.

        A merge that makes a concatenation needless is that much shorter here, and the concatenation
        as long as ever: the search adds up stages, so the gain is credited where it is decided.
        """
        schedule.require_graph(graph)
        prices = self._prices_of(graph)
        if schedule.home_lanes:
            return self._simulate_list(graph, schedule, prices)
        stage_ns = tuple(prices.price(stage) for stage in schedule.stages)
        runs = []
        begin_ns = 0
        for number, stage in enumerate(schedule.stages):
            runs += [
                SimulatedOperator(
                    members=tuple(graph.operators[index].name for index in span.operators),
                    stage=number,
                    group=span.group,
                    start_ns=begin_ns + min(stage_ns[number], round(span.start_ns)),
                    end_ns=begin_ns + min(stage_ns[number], round(span.end_ns)),
                )
                for span in prices.spans(stage)
            ]
            begin_ns += stage_ns[number]
        return SimulatedRun(
            graph_name=graph.name,
            scheduler=schedule.scheduler,
            priced_by=self.description,
            stage_ns=stage_ns,
            operators=tuple(runs),
        )

    def _simulate_list(
        self, graph: OperatorGraph, schedule: InterOpSchedule, prices: StagePrices
    ) -> SimulatedRun:
        spans = prices.list_spans(schedule)
        runs = [
            SimulatedOperator(
                members=tuple(graph.operators[index].name for index in span.operators),
                stage=0,
                group=span.group,
                start_ns=round(span.start_ns),
                end_ns=round(span.end_ns),
            )
            for span in spans
        ]
        return SimulatedRun(
            graph_name=graph.name,
            scheduler=schedule.scheduler,
            priced_by=self.description,
            stage_ns=(max((run.end_ns for run in runs), default=0),),
            operators=tuple(sorted(runs, key=lambda run: run.group)),
        )

    def _prices_of(self, graph: OperatorGraph) -> StagePrices:
        if self._stages is None or self._stages.graph is not graph:
            works = works_for(graph, self._works)
            self._stages = StagePrices(graph, works, self.gpu, self.launching, self.kernels)
        return self._stages
