"""The IOS search over a whole graph: partition, a dynamic programme for each block, a schedule."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.partition import Partition, ScheduleBlock, partition_graph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.core.verify import verify_graph, verify_schedule
from tvm_ios.cost.protocol import CostModel
from tvm_ios.search.baselines import make_schedule
from tvm_ios.search.block_graph import BlockGraph, make_block_graph
from tvm_ios.search.chains import contract_chains
from tvm_ios.search.exhaustive import solve_exhaustively
from tvm_ios.search.forecast import Forecast
from tvm_ios.search.lazy import solve_lazily
from tvm_ios.search.native_space import make_state_space
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.pricer import Pricer
from tvm_ios.search.result import BlockReport, SearchProgress, SearchResult
from tvm_ios.search.state_space import (
    WEIGHT_SHIFT,
    StateSpace,
    TooManyTransitionsError,
    stages_of,
)

__all__ = ["search_ios"]

MERGES = 10
"""Number of merge stages that together have to be able to gain what is worth a search: a network
has about as many places of a kind."""


def search_ios(
    graph: OperatorGraph,
    cost_model: CostModel,
    options: SearchOptions | None = None,
    *,
    lazy: bool = True,
    progress: Callable[[SearchProgress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    hurried: bool = False,
    partition: Partition | None = None,
) -> SearchResult:
    """The best schedule of a graph (Ding et al., MLSys 2021, section 4).

    Single operators are priced first, in one batch, so there is always an answer. Takes
    O(transitions) time a block.

    Parameters
    ----------
    cost_model
        Source of prices; one with a method ``lower_bound`` lets the lazy search price less.
    options
        Limits and rules; the paper's r = 3 and s = 8 if not given.
    lazy
        True prices only stages that can win; False prices every distinct stage.
    progress
        Called after every batch of prices.
    should_stop
        Asked between batches; after True the search returns the best schedule of the stages priced
        so far, with a note.
    hurried
        True if it will be stopped before long. All blocks are then searched with likely prices
        first, if the cost model predicts any, and after that as the options say. Otherwise the
        first blocks could take all the time.
    partition
        Blocks in place of those of :func:`partition_graph`. Its operators are those of the graph,
        so no chains are joined.
    """
    options = (options or SearchOptions()).completed(measured=False)
    verify_graph(graph)
    begin = time.perf_counter()
    contraction = contract_chains(
        graph,
        max_chain_size=(options.max_chain_size or 1) if partition is None else 1,
        keep_mergeable=Strategy.MERGE in options.strategies,
        pad_kernels=options.pad_merged_kernels,
    )
    units = contraction.graph
    if partition is None:
        partition = partition_graph(
            units,
            max_block_size=options.max_block_size,
            max_block_states=options.max_block_states,
        )
    pricer = Pricer(graph, cost_model, contraction if len(units) < len(graph) else None)
    run = _Run(units, pricer, options, lazy, progress, should_stop or (lambda: False))
    predicts = lazy and pricer.predicts
    passes = {predicts and (hurried or bool(options.predict_stages)): None}
    passes |= {predicts and bool(options.predict_stages): None}
    stages, reports = run.solve(partition.blocks, tuple(passes))
    latency_ns = sum(report.latency_ns for report in reports)
    verify_schedule(
        make_schedule(units, tuple(stages), "ios", latency_ns),
        units,
        max_group_size=options.max_group_size,
        max_num_groups=options.max_num_groups,
        pad_merged_kernels=options.pad_merged_kernels,
    )
    expanded = tuple(map(contraction.expand, stages))
    schedule = make_schedule(graph, expanded, "ios", latency_ns, pricer.description)
    verify_schedule(schedule, graph)
    return SearchResult(
        schedule=schedule,
        latency_ns=latency_ns,
        sequential_ns=run.sequential_ns,
        blocks=tuple(
            replace(report, operators=contraction.expand_operators(report.operators))
            for report in reports
        ),
        seconds=time.perf_counter() - begin,
        # A list has one block, whatever blocks are priced by.
        notes=(() if options.list_only else partition.notes) + tuple(run.notes),
    )


_Solved = tuple[list[Stage], BlockReport]
"""Stages of a block, and the effort of finding them."""


def _shorter(first: _Solved, second: _Solved) -> _Solved:
    """The shorter of two answers for a block, with the effort of both."""
    stages, report = min(first, second, key=lambda each: each[1].latency_ns)
    both = first[1], second[1]
    return stages, replace(
        report,
        # Single operators are in both counts, and were priced once.
        priced=sum(each.priced for each in both) - len(report.operators),
        seconds=sum(each.seconds for each in both),
    )


class _Run:
    """A search over all blocks of a graph: shared prices, and notes."""

    def __init__(
        self,
        graph: OperatorGraph,
        pricer: Pricer,
        options: SearchOptions,
        lazy: bool,
        progress: Callable[[SearchProgress], None] | None,
        should_stop: Callable[[], bool],
    ) -> None:
        self.graph = graph
        self.options = options
        self.lazy = lazy
        self.progress = progress
        self.should_stop = should_stop
        self.pricer = pricer
        self.notes: list[str] = []
        self.sequential_ns = sum(self.pricer.singles_ns)
        self.best_ns = self.sequential_ns
        least = self.sequential_ns * (options.least_gain_percent or 0) / 100
        self.merge_gain_ns = round(least / MERGES)
        self.forecast = Forecast()
        self.num_blocks = self.blocks_before = 0
        self.unfinished = 0

    def solve(
        self, blocks: Sequence[ScheduleBlock], passes: Sequence[bool]
    ) -> tuple[list[Stage], list[BlockReport]]:
        """Best stages of all blocks, after passes over them: True predicts."""
        self.num_blocks = len(blocks) * len(passes)
        best: list[_Solved] = []
        for predicts in passes:
            self.unfinished = 0
            best = self._pass(blocks, predicts, best)
            self.blocks_before += len(blocks)
        if self.unfinished:
            self.notes.append(
                f"stopped early: {self.unfinished} of {len(best)} blocks have the best schedule "
                "of the stages priced so far, which need not be the best there is"
            )
        self.notes = list(dict.fromkeys(self.notes))
        return [stage for stages, _ in best for stage in stages], [report for _, report in best]

    def _pass(
        self, blocks: Sequence[ScheduleBlock], predicts: bool, before: Sequence[_Solved]
    ) -> list[_Solved]:
        """Answers of a pass over all blocks, each the shorter one of this pass and the last."""
        best: list[_Solved] = []
        for number, block in enumerate(blocks, self.blocks_before):
            if before and self.should_stop():
                left = before[len(best) :]
                self.unfinished += sum(each.priced < each.distinct_stages for _, each in left)
                return [*best, *left]
            # Once stopped, a search does not even look at the states of the blocks that follow.
            skips = not before and self.unfinished > 0
            for solved in (
                self._in_order(block.operators)
                if skips
                else self._solve_block(number, block.operators, predicts)
            ):
                known = before[len(best)] if before else None
                best.append(solved if known is None else _shorter(known, solved))
                report = best[-1][1]
                known_ns = (
                    known[1].latency_ns
                    if known is not None
                    else sum(self.pricer.singles_ns[index] for index in report.operators)
                )
                self.best_ns += report.latency_ns - known_ns
        return best

    def _in_order(self, operators: Sequence[int]) -> Iterator[_Solved]:
        """A block in sequential order, which nobody looked at."""
        self.unfinished += 1
        report = BlockReport(
            operators=tuple(operators),
            latency_ns=sum(self.pricer.singles_ns[index] for index in operators),
            states=0,
            transitions=0,
            single_merges=0,
            distinct_stages=len(operators),
            priced=len(operators),
            num_schedules=1,
            seconds=0.0,
        )
        yield [Stage(((index,),)) for index in operators], report

    def _solve_block(
        self, number: int, operators: Sequence[int], predicts: bool
    ) -> Iterator[_Solved]:
        begin = time.perf_counter()
        block = make_block_graph(self.graph, operators)
        try:
            space = make_state_space(block, self.options)
        except TooManyTransitionsError:
            middle = len(operators) // 2
            if not middle:
                raise
            self.notes.append(
                f"block {self._name(operators[0])} .. {self._name(operators[-1])} with "
                f"{len(operators)} operators was split in two: it has more than "
                f"{self.options.max_block_transitions} transitions"
            )
            yield from self._solve_block(number, operators[:middle], predicts)
            yield from self._solve_block(number, operators[middle:], predicts)
            return
        before = self.pricer.count
        self._price_and_solve(number, block, space, predicts)
        stages = stages_of(block, space, space.best_path())
        yield (
            stages,
            BlockReport(
                operators=tuple(operators),
                latency_ns=space.best_weight() >> WEIGHT_SHIFT,
                states=space.num_states,
                transitions=space.num_transitions,
                single_merges=space.num_sinks if len(self.options.strategies) == 2 else 0,
                distinct_stages=len(space.stage_masks),
                priced=self.pricer.count - before + len(operators),
                num_schedules=space.count_schedules(),
                seconds=time.perf_counter() - begin,
            ),
        )

    def _price_and_solve(
        self, number: int, block: BlockGraph, space: StateSpace, predicts: bool
    ) -> None:
        def report(bound_ns: int) -> None:
            if self.progress is not None:
                self.progress(
                    SearchProgress(
                        block=number,
                        num_blocks=self.num_blocks,
                        priced=self.pricer.count,
                        possible=len(space.stage_masks),
                        bound_ns=bound_ns,
                        best_ns=self.best_ns,
                    )
                )

        if not self.lazy and not self.should_stop():
            solve_exhaustively(block, space, self.pricer)
            report(space.best_weight() >> WEIGHT_SHIFT)
            return
        finished = solve_lazily(
            block,
            space,
            self.pricer,
            margin_percent=self.options.bound_margin_percent or 0,
            merge_gain_ns=self.merge_gain_ns,
            worth_ns=self._worth_ns(block),
            forecast=self.forecast if predicts else None,
            should_stop=self.should_stop,
            on_batch=report,
        )
        self.unfinished += not finished

    def _worth_ns(self, block: BlockGraph) -> int:
        """Nanoseconds that further prices of a block have to promise."""
        in_order_ns = sum(self.pricer.singles_ns[index] for index in block.operators)
        return round(in_order_ns * (self.options.least_gain_percent or 0) / 100 / MERGES)

    def _name(self, operator: int) -> str:
        return self.graph.operators[operator].name
