"""The exhaustive programme: prices every distinct stage of a block, then solves the block."""

from __future__ import annotations

from tvm_ios.search.block_graph import BlockGraph
from tvm_ios.search.pricer import Pricer
from tvm_ios.search.state_space import StateSpace, single_stages, stages_of

__all__ = ["solve_exhaustively"]


def solve_exhaustively(block: BlockGraph, space: StateSpace, pricer: Pricer) -> None:
    """Price all stages of a block in one batch and solve it."""
    singles = single_stages(space)
    others = [number for number in range(len(space.stage_masks)) if number not in singles]
    prices_ns = [0] * len(space.stage_masks)
    for number, operator in singles.items():
        prices_ns[number] = pricer.singles_ns[block.operators[operator]]
    for number, price in zip(others, pricer.price(stages_of(block, space, others)), strict=True):
        prices_ns[number] = price
    space.start(prices_ns, priced=True)
