"""Prices of stages of a built model, under one choice of who computes each operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, LibraryOperators, Stage
from tvm_ios.cost.measured import Way
from tvm_ios.errors import CostError
from tvm_ios.profile.kernel_variant import VariantGraph, unsplit, with_variants
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.merge_prices import MergePrices, StageTerms
from tvm_ios.profile.operator_prices import TVM, OperatorChoice, OperatorPrices
from tvm_ios.profile.predicted_prices import how_far_off
from tvm_ios.search.list_schedule import OperatorTimes

__all__ = ["StagePrices"]


class StagePrices:
    """Prices of stages of one built module; a CostModel for its graph and no other."""

    def __init__(self, kernels: MeasuredKernels, choice: OperatorChoice) -> None:
        self.kernels = kernels
        """Kernels with their measured times, the same for all choices."""
        self.choice = choice
        """Maker of each operator, and operators that stay on one lane."""
        self.graph = kernels.graph
        self.alone_ns = choice.alone_ns
        """Nanoseconds of each operator on one lane."""
        self.is_predicted = choice.prices.predicted > 0
        """True if single operators have the prices of the choice, which are predictions."""
        self._chosen, self._merges = _chosen_kernels(kernels, choice)
        short = {*choice.short, *choice.unsplit}
        self._long_ns = [0 if i in short else ns for i, ns in enumerate(self.alone_ns)]
        """Nanoseconds on one lane of each long operator that idle lanes help with; else 0."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines that a reader of the prices ought to know; empty when all went well."""
        runner = self.kernels.runner
        counts, titles = Counter(self.choice.makers), runner.library_titles()
        libraries = (
            f"by itself, {counts[library]} of the {len(names)} operators that {titles[library]} "
            "can compute are fastest so"
            for library, names in runner.library_names.items()
        )
        absent = len(self.graph) - len(runner.able[TVM])
        left = f"{absent} operators have no kernel of TVM's, which cannot beat a library's call"
        return (
            *self.kernels.measured.notes,
            *([f"{left}; stock TVM runs a file with all kernels only"] if absent else ()),
            *prediction_notes(self.kernels, self.choice.prices),
            *libraries,
            *runner.notes,
        )

    @property
    def description(self) -> str:
        """Source of the prices of single operators where they are predictions; else empty."""
        return "speeds of a lane" if self.is_predicted else ""

    def annotate(self, schedule: InterOpSchedule) -> InterOpSchedule:
        """Schedule with times, lanes and libraries of single operators, as they were chosen.

        A list has its own choice of operators on one lane.
        """
        return replace(
            schedule,
            operator_ns=self.alone_ns,
            unsplit=schedule.unsplit if schedule.home_lanes else self.choice.unsplit,
            libraries=self._libraries_of(schedule) if self.kernels.runner.library_names else None,
        )

    def known_ns(self, schedule: InterOpSchedule) -> tuple[int | None, ...]:
        """Prices of a schedule's stages in nanoseconds; None where nobody asked for one yet.

        Merges were priced before they came into the schedule. Rows of a list are its operators one
        by one, each with or without help, as in the list.
        """
        if schedule.home_lanes:
            return self._rows_ns(schedule)
        known = [stage for stage in schedule.stages if self._is_known(stage)]
        known_ns = dict(zip(known, self.price(self.graph, known), strict=True))
        return tuple(known_ns.get(stage) for stage in schedule.stages)

    def operator_times(self, schedule: InterOpSchedule) -> OperatorTimes:
        """Times of single operators and of a schedule's merges, as priced."""
        merges = [stage for stage in schedule.stages if stage.is_merge]
        return OperatorTimes(
            alone_ns=self.operators_ns(self.graph, lanes=1),
            helped_ns=self.operators_ns(self.graph, lanes=self.kernels.runner.lanes),
            merged_ns=dict(zip(merges, self.price(self.graph, merges), strict=True)),
            priced_by=self.description,
        )

    def operators_ns(self, graph: OperatorGraph, *, lanes: int) -> Sequence[int]:
        """Nanoseconds of each operator on one lane or on all; 0 where it needs no kernel.

        As a price of its own it has a nanosecond there.
        """
        each_ns: Sequence[int] = self.alone_ns
        if lanes > 1:
            each_ns = self.price(graph, [Stage(((index,),)) for index in range(len(graph))])
        views = map(self.kernels.runner.needs_no_kernel, range(len(graph)))
        return [0 if view else ns for view, ns in zip(views, each_ns, strict=True)]

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """Latency that each stage adds to a network, in nanoseconds.

        A concurrent stage is measured by itself. Several groups cost more by
        ``concurrency_overhead_percent`` of their long operators' work, which idle lanes would help
        with. Where idle lanes help, one group of several operators, and all groups on one lane,
        cost the sum of their operators, since they run so; timed again and again by themselves they
        would find more in the caches than in a network. The price of a merge stage, at least 1,
        includes its effects on operators around it.
        """
        self._require(graph)
        terms = [self._terms(stage) for stage in stages]
        # Comparing graphs would take longer than measuring; these all live as long as the terms.
        asked = {(id(way[0]), way[1]): way for each in terms for way in each.ways}
        known_ns = {
            key: ns for key, way in asked.items() if (ns := self._predicted_ns(way)) is not None
        }
        unknown = {key: way for key, way in asked.items() if key not in known_ns}
        priced_ns = self.kernels.measured.price([[way] for way in unknown.values()])
        known_ns |= zip(unknown, priced_ns, strict=True)
        return [max(1, each.sum_ns(lambda way: known_ns[id(way[0]), way[1]])) for each in terms]

    def lower_bound(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """Lower bound of each stage's price in nanoseconds: its work.

        A lane is a core, so lanes together do no more at a time than each does alone, with groups
        of their own or parts of one operator. A merge computes its members' FLOPs at no better rate
        than the best operator of the network, and may save concatenations. The bound is 0 where
        idle lanes do not help, since streams share what a kernel leaves over.
        """
        del graph
        runner = self.kernels.runner
        if not runner.idle_lanes_help:
            return [0] * len(stages)
        return [
            self._merges.bound_ns(stage, flops_per_ns=self._flops_per_ns)
            if stage.is_merge
            else sum(self.alone_ns[index] for index in stage.operators) // runner.lanes
            + self._overhead_ns(stage)
            for stage in stages
        ]

    def predicted(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """Likely price of each stage in nanoseconds, from prices of its operators; 0 for merges.

        Groups go to lanes as when they run, and a lane that is done helps the one with the most
        work left as well as lanes help with the stage's operators. Everything is 0 where idle lanes
        do not help.
        """
        del graph
        if not self.kernels.runner.idle_lanes_help:
            return [0] * len(stages)
        return [
            0 if stage.is_merge else self._side_by_side_ns(stage) + self._overhead_ns(stage)
            for stage in stages
        ]

    def floors(
        self, graph: OperatorGraph, stages: Sequence[Stage], prices_ns: Sequence[int]
    ) -> Sequence[int]:
        """Floors of stages in nanoseconds: no stage that contains one of them costs less.

        A merge stage with more members may be a concatenation, or need no copies any more, and cost
        less for that.
        """
        del graph
        return [
            max(0, self._merges.floor_ns(stage, price_ns))
            for stage, price_ns in zip(stages, prices_ns, strict=True)
        ]

    def _side_by_side_ns(self, stage: Stage) -> int:
        """Nanoseconds of the groups of a stage on all lanes, from prices of its operators."""
        helped_ns, alone_ns, lanes = self._helped_ns, self.alone_ns, self.kernels.runner.lanes
        if len(stage.groups) == 1:
            return max(1, sum(helped_ns[index] for index in stage.operators))
        loads_ns = [0] * lanes
        groups_ns = [sum(alone_ns[index] for index in group) for group in stage.groups]
        for group_ns in sorted(groups_ns, reverse=True):
            loads_ns[loads_ns.index(min(loads_ns))] += group_ns
        most_ns, work_ns = max(loads_ns), sum(loads_ns)
        saved_ns = work_ns - sum(helped_ns[index] for index in stage.operators)
        # Help would save this much at best.
        share = min(1.0, max(0, saved_ns) * lanes / (work_ns * (lanes - 1))) if lanes > 1 else 0
        return max(1, round(most_ns - share * (most_ns - work_ns / lanes)))

    @cached_property
    def _helped_ns(self) -> Sequence[int]:
        """Nanoseconds of each operator on all lanes, or on one where it is not split."""
        return self.operators_ns(self.graph, lanes=self.kernels.runner.lanes)

    @cached_property
    def _flops_per_ns(self) -> float:
        """FLOPs a nanosecond of the operator that all lanes together compute at the best rate."""
        operators = self.graph.operators
        return max(
            (each.flops / ns for each, ns in zip(operators, self._helped_ns, strict=True) if ns),
            default=1.0,
        )

    def _require(self, graph: OperatorGraph) -> None:
        if graph is not self.graph and graph.fingerprint() != self.graph.fingerprint():
            raise CostError(
                f"graph {graph.name!r} (fingerprint {graph.fingerprint()}) is not the one these "
                f"kernels were built for ({self.graph.fingerprint()}); build and price the same "
                "module"
            )

    def _terms(self, stage: Stage) -> StageTerms:
        if stage.is_merge:
            return self._merges.terms(stage)
        ways = tuple((self._chosen, part) for part in self._measured_as(stage))
        return StageTerms(added=ways, overhead_ns=self._overhead_ns(stage))

    def _measured_as(self, stage: Stage) -> Sequence[Stage]:
        """Stages whose times add up to the time of a stage without merges."""
        runner = self.kernels.runner
        overlaps = len(stage.groups) > 1 and runner.lanes > 1
        if overlaps or not runner.idle_lanes_help:
            return [stage]
        return [Stage(((index,),)) for index in stage.operators]

    def _overhead_ns(self, stage: Stage) -> int:
        """Nanoseconds that a stage without merges costs more in a network than by itself."""
        if len(stage.groups) == 1:
            return 0
        work_ns = sum(self._long_ns[index] for index in stage.operators)
        runner = self.kernels.runner
        return runner.concurrency_overhead_percent * work_ns // (100 * runner.lanes)

    def _rows_ns(self, schedule: InterOpSchedule) -> tuple[int, ...]:
        """Times of the rows of a list in nanoseconds."""
        times = self.operator_times(schedule)
        each_ns = [
            times.alone_ns[index] if index in schedule.unsplit else times.helped_ns[index]
            for index in range(len(self.graph))
        ]
        return tuple(
            times.merged_ns[row] if row.is_merge else sum(each_ns[i] for i in row.operators)
            for row in schedule.stages
        )

    def _is_known(self, stage: Stage) -> bool:
        """True if a price needs no measurement; a merge was priced before it was put somewhere."""
        record = self.kernels.measured.record
        return stage.is_merge or all(
            record(self._chosen, part) is not None
            or self._predicted_ns((self._chosen, part)) is not None
            for part in self._measured_as(stage)
        )

    def _predicted_ns(self, way: Way) -> int | None:
        """Price of a single operator by its maker, where it is none of a measured stage."""
        graph, stage = way
        if not self.is_predicted or graph is not self._chosen or len(stage.operators) > 1:
            return None
        (index,) = stage.operators
        price = self.choice.prices.by_maker[self.choice.makers[index]][index]
        return price.alone_ns if index in self.choice.unsplit else price.helped_ns

    def _libraries_of(self, schedule: InterOpSchedule) -> tuple[LibraryOperators, ...]:
        """Operators for each operator library: single operators, and merges as wholes."""
        makers = list(self.choice.makers)
        for stage in schedule.stages:
            if stage.is_merge:
                merged = self._merges.fastest_maker(stage)
                for index in stage.operators:
                    makers[index] = merged
        return replace(self.choice, makers=tuple(makers)).rows(self.kernels.runner.library_names)


def prediction_notes(kernels: MeasuredKernels, prices: OperatorPrices) -> tuple[str, ...]:
    """Note on predictions: how many prices are some, or how far off they would have been."""
    runner = kernels.runner
    if not runner.idle_lanes_help:
        return ()
    if prices.predicted:
        measured = len(prices.graph) - prices.predicted
        return (
            f"times of {prices.predicted} operators are predictions by the speeds of a lane "
            f"({runner.session.device.speeds.as_text()}); {measured} were measured, or need no "
            "kernel",
        )
    off = how_far_off(kernels.predicted(), prices, runner.needs_no_kernel)
    return (off,) if off else ()


def _chosen_kernels(
    kernels: MeasuredKernels, choice: OperatorChoice
) -> tuple[VariantGraph, MergePrices]:
    """Graph with the kernels of each operator's maker, and prices of merges beside them."""
    alone_ns = choice.alone_ns
    graphs = {
        maker: unsplit(graph, choice.unsplit, alone_ns)
        for maker, graph in kernels.runner.graphs.items()
    }
    rows = [graphs[maker].variants[index] for index, maker in enumerate(choice.makers)]
    chosen = with_variants(kernels.graph, rows)
    return chosen, MergePrices(kernels, graphs, chosen)
