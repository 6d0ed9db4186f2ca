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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_ios.errors import OutOfTimeError
from tvm_ios.search.block_graph import BlockGraph
from tvm_ios.search.pricer import Pricer
from tvm_ios.search.state_space import WEIGHT_SHIFT, StateSpace, single_stages, stages_of

__all__ = ["solve_lazily"]


def solve_lazily(
    block: BlockGraph,
    space: StateSpace,
    pricer: Pricer,
    *,
    margin_percent: int = 0,
    merge_gain_ns: int = 0,
    should_stop: Callable[[], bool] = lambda: False,
    on_batch: Callable[[int], None] = lambda _: None,
) -> bool:
    """Solve a block; return False if it was stopped before the optimum was certain.

    Afterwards the state space holds the best way. The lower bound of the whole block goes to
    ``on_batch`` after every batch of prices, and ``should_stop`` is asked before.

    Parameters
    ----------
    margin_percent
        Per cent by which a stage may cost less than its bound, where prices are noisy. Below 0
        bounds are raised, and the result may be longer than the optimum by as much.
    merge_gain_ns
        Nanoseconds that a merge stage has to be able to gain: its bound is raised by as much.
    """
    priced: set[int] = set()
    alone = {
        mask: stage for stage, mask in enumerate(space.stage_masks) if stage >= space.num_merges
    }

    def trusted(bounds_ns: Sequence[int]) -> list[int]:
        return [bound_ns * (100 - margin_percent) // 100 for bound_ns in bounds_ns]

    def settle(batch: list[int], prices: list[int]) -> None:
        floors = trusted(pricer.floors(stages_of(block, space, batch), prices))
        space.settle(batch, prices, floors)
        priced.update(batch)
        # Where bounds are raised, so is their sum, which is told as a lower bound.
        on_batch((space.best_weight() >> WEIGHT_SHIFT) * 100 // raised_percent)

    raised_percent = 100 - min(0, margin_percent)
    bounds_ns: Sequence[int] = [0] * len(space.stage_masks)
    if pricer.knows_lower_bounds:  # else it is not worth making a stage of each
        bounds_ns = trusted(pricer.lower_bounds(stages_of(block, space, range(len(bounds_ns)))))
        merges_ns = [bound_ns + merge_gain_ns for bound_ns in bounds_ns[: space.num_merges]]
        bounds_ns = [*merges_ns, *bounds_ns[space.num_merges :]]
    space.start(bounds_ns, priced=False)
    singles = single_stages(space)
    settle(list(singles), [pricer.singles_ns[block.operators[i]] for i in singles.values()])
    while True:
        unpriced = [stage for stage in space.best_path() if stage not in priced]
        if not unpriced:
            return True
        if should_stop():
            space.keep_priced_only()
            return False
        batch = _cheapest_to_know(unpriced, space, alone, priced)
        try:
            prices = pricer.price(stages_of(block, space, batch))
        except OutOfTimeError:
            space.keep_priced_only()
            return False
        settle(batch, prices)


def _cheapest_to_know(
    unpriced: Sequence[int], space: StateSpace, alone: dict[int, int], priced: set[int]
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
