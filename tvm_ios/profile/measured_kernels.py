"""Kernels of a built model with all that was measured of them, whoever computes its operators.

The module is built once. Every stage of a search is timed with its kernels, on the lanes of the
final executor. Operators come first, each by every way: own kernel or operator library, with or
without help. Since the fastest way is chosen, all ways of an operator are priced side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain

from tvm_ios.core.schedule import Stage
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.efficiencies import Efficiencies
from tvm_ios.cost.known_choices import KnownChoices
from tvm_ios.cost.measured import MeasureCounters, MeasuredStages, MeasureOptions
from tvm_ios.measure.sampling import HOPELESS, LONG_SAMPLE_NS
from tvm_ios.profile.kernel_variant import VariantGraph, unsplit
from tvm_ios.profile.measuring_call import profile_context
from tvm_ios.profile.operator_prices import OperatorPrice, OperatorPrices
from tvm_ios.profile.predicted_prices import PricePredictor
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.runtime.base.tvm_names import DIALECT
from tvm_ios.support.time_budget import TimeBudget

__all__ = ["LONG_FLOPS", "MeasuredKernels", "measure_operators"]

LONG_FLOPS = 20_000_000
"""Floating-point operations that no core does within
:data:`~tvm_ios.profile.operator_prices.LONG_NS`."""
HOPS = 5
"""Hand-offs of a look at how far apart cores are."""
_Graphs = Mapping[str, VariantGraph]
"""Graph with the kernels of each maker, with or without help."""
_Able = Mapping[str, Collection[int]]
"""Operators that are asked for of each maker."""
_Ask = Callable[[Sequence[tuple[_Graphs, _Able]], Iterable[int]], dict[tuple[str, int], int]]
"""Function that measures operators; each pair is a question, and the last one is answered."""


class MeasuredKernels:
    """Kernels of one built model, and times of its stages, each measured once.

    Without a database, prices are kept in memory only. What measures them ends with the budget.
    """

    def __init__(
        self,
        runner: StageKernels,
        *,
        database: ProfileDatabase | None = None,
        options: MeasureOptions | None = None,
        budget: TimeBudget | None = None,
    ) -> None:
        self.runner = runner
        self.budget = budget or TimeBudget()
        self.graph = runner.built.graph
        self._database = database
        context = profile_context(runner.built.prepared.target, runner.lanes, runner.session.device)
        own, *others = runner.graphs.values()
        libraries = (library.identity() for library in runner.built.libraries)
        calls = (each.fingerprint() for each in others)
        self.identity = " with ".join((own.fingerprint(), *libraries, *calls))
        """Text that names the graph, the code of its kernels, and the operator libraries that may
        compute in their place, with their calls."""
        self.choices = KnownChoices(database, context)
        """Choices that were made before under the conditions of these prices."""
        self._slow_ns = (options or MeasureOptions()).mode.slow_ns
        self.measured = MeasuredStages(
            runner,
            context,
            options=options,
            database=database,
            patience=runner.session.patience,
            budget=self.budget,
        )
        """Times of stages by themselves."""

    @property
    def counters(self) -> MeasureCounters:
        """Counts and seconds of all pricing so far."""
        return self.measured.counters

    @property
    def in_slow_mode(self) -> bool:
        """True if cores are far apart now, as they are in a virtual machine's slow mode."""
        return 0 < self._slow_ns < min(self.runner.ping_pong_ns() for _ in range(HOPS))

    @property
    def predictor(self) -> PricePredictor:
        """Predictor of prices on the device."""
        return PricePredictor(
            speeds=self.runner.session.device.speeds,
            lanes=self.runner.lanes,
            efficiencies=Efficiencies.shipped(DIALECT),
        )

    def predicted(self) -> OperatorPrices:
        """Predicted prices of all operators by each maker; nothing is run."""
        runner = self.runner
        return self.predictor.prices(
            self.graph,
            runner.able,
            found_ns=runner.found_ns,
            needs_no_kernel=runner.needs_no_kernel,
        )

    @contextmanager
    def resumable(self) -> Iterator[None]:
        """Context that saves prices at its end; after Ctrl-C the exception says how to go on."""
        try:
            try:
                yield
            finally:
                self.measured.save()
        except KeyboardInterrupt as interrupt:
            kept = self.counters.priced - self.counters.unsaved
            path = None if self._database is None else self._database.path
            interrupt.add_note(
                f"{kept} measured prices are kept in {path}; do the same again to go on from there"
            )
            raise


def measure_operators(
    kernels: MeasuredKernels,
    *,
    operators: Collection[int] | None = None,
    on_batch: Callable[[MeasureCounters], None] | None = None,
) -> OperatorPrices:
    """Price operators by each maker, with and without the help of idle lanes.

    On a GPU nothing helps. A maker that takes long with help, and far longer than another one, is
    not run without help. All operators are priced unless some are given. ``on_batch`` is called
    after each measured batch.
    """
    runner = kernels.runner
    every = range(len(kernels.graph)) if operators is None else sorted(operators)
    helped = runner.graphs
    able: _Able = runner.able
    if operators is not None:
        able = {maker: {*every} & {*each} for maker, each in able.items()}
    ask = partial(_measured_ns, kernels, on_batch)
    if not runner.idle_lanes_help:
        found = ask([(helped, able)], every)
        return _prices(kernels, able, found, found)
    alone = {maker: unsplit(graph, able[maker]) for maker, graph in helped.items()}
    hopeful = able
    if len(helped) > 1:
        hopeful = _measured_in_turns(kernels, ask, helped, alone, able)
    helped_ns, alone_ns = ask([(helped, able)], every), ask([(alone, hopeful)], every)
    return _prices(kernels, able, helped_ns, alone_ns)


def _measured_in_turns(
    kernels: MeasuredKernels, ask: _Ask, helped: _Graphs, alone: _Graphs, able: _Able
) -> _Able:
    """Operators of each maker that have a price without help, too.

    All makers are measured at one time, as two questions: with help and without. On many lanes a
    kernel without help takes many times as long, and is no worse for that. Both questions are asked
    at one time where help may not pay. Left out are operators that take long, and far longer than
    by another maker.
    """
    flops = [each.flops for each in kernels.graph.operators]
    ask([(helped, able), (alone, able)], [i for i, each in enumerate(flops) if each <= LONG_FLOPS])
    long = [index for index, each in enumerate(flops) if each > LONG_FLOPS]
    prices_ns = ask([(helped, able)], long)
    hopeless = {
        (maker, index)
        for (maker, index), price_ns in prices_ns.items()
        if price_ns > LONG_SAMPLE_NS
        and price_ns > HOPELESS * min(prices_ns.get((each, index), price_ns) for each in helped)
    }
    hopeful = {
        maker: [index for index in each if (maker, index) not in hopeless]
        for maker, each in able.items()
    }
    ask([(alone, hopeful)], long)
    return hopeful


def _measured_ns(
    kernels: MeasuredKernels,
    on_batch: Callable[[MeasureCounters], None] | None,
    questions: Sequence[tuple[_Graphs, _Able]],
    operators: Iterable[int],
) -> dict[tuple[str, int], int]:
    """Nanoseconds of operators by each maker that can run them, from the last question."""
    asked = [
        [(maker, graph, index) for maker, graph in graphs.items() if index in able[maker]]
        for index in operators
        for graphs, able in questions
    ]
    prices_ns = kernels.measured.price(
        [[(graph, Stage(((index,),))) for _, graph, index in each] for each in asked],
        on_batch=on_batch,
    )
    flat = chain.from_iterable(asked)
    return {(maker, i): ns for (maker, _, i), ns in zip(flat, prices_ns, strict=True)}


def _prices(
    kernels: MeasuredKernels,
    able: _Able,
    helped_ns: Mapping[tuple[str, int], int],
    alone_ns: Mapping[tuple[str, int], int],
) -> OperatorPrices:
    lanes = kernels.runner.lanes
    return OperatorPrices(
        graph=kernels.graph,
        by_maker={
            maker: {
                index: OperatorPrice(
                    alone_ns=alone_ns.get((maker, index), lanes * helped_ns[maker, index]),
                    helped_ns=helped_ns[maker, index],
                )
                for index in sorted(each)
            }
            for maker, each in able.items()
        },
        idle_lanes_help=kernels.runner.idle_lanes_help,
    )
