"""The lazy search: solve with lower bounds, price what the best way uses, repeat.

A stage without a price has a bound instead, so the best way is never longer than the optimum; once
all its stages are priced it is the optimum. Two bounds need nothing but prices:

- a stage costs at least as much as its longest group run alone;
- a stage costs at least as much as any priced stage it contains, each group of that stage within a
  group of its own, so that nothing that ran side by side is now run one after another.

Both are the same statement, the first with one group. A cost model may know more: if it has a
method ``lower_bound(graph, stages)``, its answers are bounds from the start; and one under which
a stage may cost less than a part of it says by how much, with ``floors(graph, stages, prices)``.

With valid bounds the latency found is that of the exhaustive programme; among schedules of equal
latency another may be returned. Prices that are measured are noisy, and a bound may come out a
little above the price it bounds. A price always replaces the bound, so the result is exact for what
was priced; a stage hidden behind a bound that is too high by the noise may be missed, and then the
loss is no more than the noise of the prices on the way. ``bound_margin_percent`` buys safety for
more prices. Every round prices at least one new stage, so the search ends in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    should_stop: Callable[[], bool] = lambda: False,
    on_batch: Callable[[int], None] = lambda _: None,
) -> bool:
    """Solve a block; return False if it was stopped before the optimum was certain.

    Parameters
    ----------
    block, space
        The block and its state space, which afterwards holds the best way.
    pricer
        Where prices and bounds come from; it has the prices of single operators.
    margin_percent
        How much less than its bound a stage may cost, where bounds are of noisy prices. Below 0
        bounds are raised, and what is found may be so much longer than the optimum.
    should_stop
        Asked before every batch of prices.
    on_batch
        Told the bound of the whole block after every batch.
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
        on_batch((space.best_weight() >> WEIGHT_SHIFT) * 100 // raised_percent)

    raised_percent = 100 - min(0, margin_percent)
    bounds_ns: Sequence[int] = [0] * len(space.stage_masks)
    if pricer.knows_lower_bounds:  # else it is not worth making a stage of each
        bounds_ns = trusted(pricer.lower_bounds(stages_of(block, space, range(len(bounds_ns)))))
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
        settle(batch, pricer.price(stages_of(block, space, batch)))


def _cheapest_to_know(
    unpriced: Sequence[int], space: StateSpace, alone: dict[int, int], priced: set[int]
) -> list[int]:
    """Of the unpriced stages of the best way, those whose prices bound the most other stages.

    A group that was never priced alone goes before the stages it is in. Among what is left, small
    stages go first, for many stages contain them; the others may be off the best way by then.
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
