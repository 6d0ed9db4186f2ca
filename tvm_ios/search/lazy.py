"""The lazy search: solve with lower bounds, price the stages of the best way, repeat.

A stage without a price has a lower bound instead, so the best way is never longer than the optimum.
Once all stages of the best way are priced it is the optimum. Two bounds need only prices:

- a stage costs at least as much as its longest group run alone;
- a stage costs at least as much as any priced stage it contains, where each group of the priced
    stage lies within a group of its own, so that no groups side by side become one.

The first is the second with one group. A cost model may know more. Answers of its method
``lower_bound(graph, stages)`` are bounds from the start. Where a stage may cost less than a part of
it, its method ``floors(graph, stages, prices)`` says by how much.

With valid bounds the latency found is that of the exhaustive programme; among schedules of equal
latency another may be returned. Measured prices are noisy, so a bound may be a little above the
price it bounds. A price always replaces the bound, so the result is exact for the priced stages. A
stage whose bound is too high by noise may be missed; the loss is at most the noise of the prices on
the way. ``bound_margin_percent`` buys safety with more prices. Every round prices at least one new
stage, so the search ends.

With a forecast, a stage also counts at its likely price, which lies far closer to the price than
any bound, so few stages are priced. Where no stage is cheaper than its likely price by more than a
share e, the schedule found is at most 1 / (1 - e) times as long as the optimum. Where prices
scatter, one more stage may always be cheaper; the search ends when many in a row were not.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import compress

from tvm_ios.core.schedule import Stage
from tvm_ios.errors import OutOfTimeError
from tvm_ios.search.block_graph import BlockGraph
from tvm_ios.search.forecast import Forecast
from tvm_ios.search.pricer import Pricer
from tvm_ios.search.state_space import WEIGHT_SHIFT, StateSpace, single_stages, stages_of

__all__ = ["solve_lazily"]

STEADY = 0.01
"""Change of likely prices that is worth solving a block anew."""
PATIENCE = 24
"""Prices of stages in a row that shorten the best way by too little before a forecast is done."""


def solve_lazily(
    block: BlockGraph,
    space: StateSpace,
    pricer: Pricer,
    *,
    margin_percent: int = 0,
    merge_gain_ns: int = 0,
    worth_ns: int = 0,
    forecast: Forecast | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_batch: Callable[[int], None] = lambda _: None,
) -> bool:
    """Solve a block; return False if it was stopped before its end.

    Afterwards the state space holds the best way. The lower bound of the whole block, or with a
    forecast its likely price, goes to ``on_batch`` after every batch of prices, and ``should_stop``
    is asked before.

    Parameters
    ----------
    margin_percent
        Per cent by which a stage may cost less than its bound, where prices are noisy.
    merge_gain_ns
        Nanoseconds that a merge stage has to be able to gain: its bound is raised by as much.
    worth_ns
        Nanoseconds that more prices have to promise to gain over the best way that is priced.
    forecast
        Corrects predictions, which then count where they are above the bounds, and learns from the
        prices; None leaves the bounds alone.
    """
    priced: dict[int, int] = {}
    alone = {
        mask: stage for stage, mask in enumerate(space.stage_masks) if stage >= space.num_merges
    }

    def trusted(bounds_ns: Sequence[int]) -> list[int]:
        return [bound_ns * (100 - margin_percent) // 100 for bound_ns in bounds_ns]

    def settle(prices: dict[int, int]) -> None:
        batch, prices_ns = list(prices), list(prices.values())
        floors = trusted(pricer.floors(stages_of(block, space, batch), prices_ns))
        space.settle(batch, prices_ns, floors)

    bounds_ns: Sequence[int] = [0] * len(space.stage_masks)
    likely = None
    if pricer.knows_lower_bounds or forecast is not None:  # else it is not worth making them
        every = stages_of(block, space, range(len(bounds_ns)))
        bounds_ns = trusted(pricer.lower_bounds(every))
        merges_ns = [bound_ns + merge_gain_ns for bound_ns in bounds_ns[: space.num_merges]]
        bounds_ns = [*merges_ns, *bounds_ns[space.num_merges :]]
        likely = None if forecast is None else _Likely(every, pricer.predicted(every), forecast)
    singles = single_stages(space)
    known = {stage: pricer.singles_ns[block.operators[i]] for stage, i in singles.items()}
    shortest_ns = last_ns = sum(known.values())
    in_vain = 0
    space.start(bounds_ns if likely is None else likely.over(bounds_ns), priced=False)
    while True:
        settle(known)
        priced |= known
        on_batch(space.best_weight() >> WEIGHT_SHIFT)
        if likely is not None and likely.learn(known):
            space.start(likely.over(bounds_ns), priced=False)
            settle(priced)
        path = space.best_path()
        unpriced = [stage for stage in path if stage not in priced]
        if not unpriced:
            return True
        promised_ns = space.best_weight() >> WEIGHT_SHIFT
        if likely is not None and (promised_ns >= shortest_ns - worth_ns or in_vain >= PATIENCE):
            space.keep_priced_only()
            return True
        if should_stop():
            space.keep_priced_only()
            return False
        batch = _cheapest_to_know(unpriced, space, alone, priced) if likely is None else unpriced
        try:
            known = dict(zip(batch, pricer.price(stages_of(block, space, batch)), strict=True))
        except OutOfTimeError:
            space.keep_priced_only()
            return False
        if likely is not None:
            shortest_ns = min(shortest_ns, sum((priced | known)[stage] for stage in path))
            in_vain += len(batch)
            if shortest_ns < last_ns - worth_ns:
                last_ns, in_vain = shortest_ns, 0


class _Likely:
    """Likely prices of all stages of a block."""

    def __init__(
        self, stages: Sequence[Stage], predicted_ns: Sequence[int], forecast: Forecast
    ) -> None:
        self._predicted_ns = predicted_ns
        # One group is the sum of its operators. Merges have kernels of their own.
        self._learns = [
            len(stage.groups) > 1 and not stage.is_merge and each_ns > 0
            for stage, each_ns in zip(stages, predicted_ns, strict=True)
        ]
        learning_ns = list(compress(predicted_ns, self._learns))
        self._ends_ns = (min(learning_ns), max(learning_ns)) if learning_ns else ()
        self._forecast = forecast
        self._last_ns: list[int] = []

    def over(self, bounds_ns: Sequence[int]) -> list[int]:
        """Likely prices in nanoseconds, none below its bound."""
        likely_ns = self._forecast.likely_ns
        self._last_ns = list(map(likely_ns, self._ends_ns))
        return [
            max(bound_ns, likely_ns(each_ns) if learns else each_ns)
            for bound_ns, each_ns, learns in zip(
                bounds_ns, self._predicted_ns, self._learns, strict=True
            )
        ]

    def learn(self, prices: Mapping[int, int]) -> bool:
        """Learn from prices of stages; True if likely prices changed by that."""
        self._forecast.learn(
            (self._predicted_ns[stage], price_ns)
            for stage, price_ns in prices.items()
            if self._learns[stage]
        )
        now_ns = map(self._forecast.likely_ns, self._ends_ns)
        return any(
            abs(one_ns - other_ns) > STEADY * other_ns
            for one_ns, other_ns in zip(now_ns, self._last_ns, strict=True)
        )


def _cheapest_to_know(
    unpriced: Sequence[int],
    space: StateSpace,
    alone: Mapping[int, int],
    priced: Container[int],
) -> list[int]:
    """The unpriced stages of the best way whose prices bound the most other stages.

    A group that was never priced alone goes before the stages it is in. Then small stages go first,
    for many stages contain them; the others may have left the best way by then.
    """
    wanted: dict[int, tuple[int, int]] = {}
    for stage in unpriced:
        groups = space.stage_groups(stage)
        apart = [] if stage < space.num_merges else [alone[group] for group in groups]
        for choice in [group for group in apart if group not in priced] or [stage]:
            mask = space.stage_masks[choice]
            wanted[choice] = (len(space.stage_groups(choice)), mask.bit_count())
    smallest = min(wanted.values())
    return [stage for stage, size in wanted.items() if size == smallest]
