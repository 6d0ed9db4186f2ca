"""The dynamic programme of a block: states, transitions between them, and the best way through.

A state is a predecessor-closed set of operators that are still to be scheduled. A transition takes
one of its endings away as the last stage. The value of a state is the least sum, over its
transitions, of the stage's weight and the rest's value (Ding et al., MLSys 2021, algorithm 1).

Weights are compared as single integers: latency first, then the number of stages that have no
price yet, then the number of stages. Among equals the first transition wins: merges before
concurrent stages, small masks before large ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tvm_ios.core.graph import bits_of
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.errors import SearchError
from tvm_ios.search.block_graph import BlockGraph

__all__ = [
    "UNPRICED",
    "WEIGHT_SHIFT",
    "StateSpace",
    "TooManyTransitionsError",
    "single_stages",
    "stages_of",
]

# state_space.c has this number and the next one as well.
WEIGHT_SHIFT = 20
"""Bits below the latency in a weight: ``latency_ns << WEIGHT_SHIFT``, plus 1, plus UNPRICED for a
bound."""
UNPRICED = 1 << 10


class TooManyTransitionsError(SearchError):
    """A block has more transitions than may be held; it has to be split."""


class StateSpace(Protocol):
    """States and stages of one block, with prices and bounds that can grow."""

    num_states: int
    """Number of nonempty states."""
    num_transitions: int
    num_sinks: int
    """Sinks, summed over the states: transitions that merges of one operator would add."""
    stage_masks: list[int]
    """Bit masks of the operators of every distinct stage: merges first, then concurrent stages."""
    num_merges: int
    """Number of merges among the stages."""

    def stage_groups(self, stage: int) -> tuple[int, ...]:
        """Groups of a stage as bit masks, by lowest operator."""
        ...

    def count_schedules(self) -> int:
        """Number of ways from the full state to the empty one."""
        ...

    def start(self, prices_ns: Sequence[int], *, priced: bool) -> None:
        """Give every stage a price, or a lower bound of it, and solve every state."""
        ...

    def settle(
        self, stages: Sequence[int], prices_ns: Sequence[int], floors_ns: Sequence[int]
    ) -> None:
        """Price stages, raise every stage that contains one of them to its floor, solve again.

        Only states that the changes reach are solved again.
        """
        ...

    def keep_priced_only(self) -> None:
        """Forget stages without a price and solve; single operators must have prices."""
        ...

    def best_weight(self) -> int:
        """Weight of the best way from the full state."""
        ...

    def best_path(self) -> list[int]:
        """Stages of the best way, in the order they run."""
        ...


def single_stages(space: StateSpace) -> dict[int, int]:
    """Numbers of the stages of one operator, each with its operator."""
    return {
        number: mask.bit_length() - 1
        for number, mask in enumerate(space.stage_masks)
        if number >= space.num_merges and mask.bit_count() == 1
    }


def stages_of(block: BlockGraph, space: StateSpace, numbers: Iterable[int]) -> list[Stage]:
    """Stages of a state space, in graph indices."""
    groups: dict[int, tuple[int, ...]] = {}

    def indices(mask: int) -> tuple[int, ...]:
        found = groups.get(mask)
        if found is None:
            found = groups[mask] = tuple([block.operators[i] for i in bits_of(mask)])
        return found

    return [
        Stage(
            tuple([indices(mask) for mask in space.stage_groups(number)]),
            Strategy.MERGE if number < space.num_merges else Strategy.CONCURRENT,
        )
        for number in numbers
    ]
