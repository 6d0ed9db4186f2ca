"""The exhaustive programme: every distinct stage of a block is priced, then the block is solved."""

from __future__ import annotations

from tvm_ios.search.block_graph import BlockGraph
from tvm_ios.search.pricer import Pricer
from tvm_ios.search.state_space import StateSpace, stage_of

__all__ = ["solve_exhaustively"]


def solve_exhaustively(block: BlockGraph, space: StateSpace, pricer: Pricer) -> None:
    """Price all stages of a block in one batch and solve it."""
    stages = [stage_of(block, space, stage) for stage in range(len(space.stage_masks))]
    space.start(pricer.price(stages), priced=True)
