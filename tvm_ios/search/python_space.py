"""The state space in plain Python: for blocks of any length, and machines without a C compiler."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from tvm_ios.core.endings import admissible_groups, components, disjoint_unions, sink_mask
from tvm_ios.core.graph import bits_of
from tvm_ios.core.partition import order_ideals
from tvm_ios.core.schedule import Strategy
from tvm_ios.search.block_graph import BlockGraph, mergeable_sets
from tvm_ios.search.options import SearchOptions
from tvm_ios.search.state_space import UNPRICED, WEIGHT_SHIFT, TooManyTransitionsError

__all__ = ["PythonStateSpace"]


class PythonStateSpace:
    """The state space in plain Python, for blocks of any length.

    Takes O(transitions) time and 8 bytes a transition.
    """

    def __init__(self, block: BlockGraph, options: SearchOptions) -> None:
        self._block = block
        self._options = options
        self._neighbours = [
            p | s for p, s in zip(block.predecessors, block.successors, strict=True)
        ]
        self._states = order_ideals(block.predecessors)
        self.num_states = len(self._states) - 1
        self.num_sinks = 0
        self.stage_masks: list[int] = mergeable_sets(block, options)
        self.num_merges = len(self.stage_masks)
        self._enumerate()
        self.num_transitions = len(self._stage_of)
        self._groups: list[tuple[int, ...] | None] = [None] * len(self.stage_masks)

    def _enumerate(self) -> None:
        block, options = self._block, self._options
        limit = options.max_block_transitions
        concurrent = Strategy.CONCURRENT in options.strategies
        merge_ids = {mask: stage for stage, mask in enumerate(self.stage_masks)}
        mergeable = 0
        for mask in merge_ids:
            mergeable |= mask
        concurrent_ids: dict[int, int] = {}
        position = {state: index for index, state in enumerate(self._states)}
        self._first = array("q", [0, 0])
        self._stage_of = array("i")
        self._next_of = array("i")
        for state in self._states[1:]:
            sinks = sink_mask(state, block.successors)
            self.num_sinks += sinks.bit_count()
            for mask in _submasks(sinks & mergeable):
                if mask in merge_ids:
                    self._stage_of.append(merge_ids[mask])
                    self._next_of.append(position[state ^ mask])
            if concurrent:
                groups = admissible_groups(
                    state, block.descendants, options.endings, options.max_group_size
                )
                unions = disjoint_unions(groups, options.max_num_groups)
            else:
                unions = [1 << index for index in bits_of(sinks)]
            for mask in unions:
                stage = concurrent_ids.get(mask)
                if stage is None:
                    stage = concurrent_ids[mask] = len(self.stage_masks)
                    self.stage_masks.append(mask)
                self._stage_of.append(stage)
                self._next_of.append(position[state ^ mask])
            self._first.append(len(self._stage_of))
            if len(self._stage_of) > limit:
                raise TooManyTransitionsError(
                    f"a block of {len(block)} operators has more than {limit} transitions; "
                    "lower max_group_size, max_num_groups or max_block_states"
                )

    def stage_groups(self, stage: int) -> tuple[int, ...]:
        """Groups of a stage as bit masks, by lowest operator."""
        groups = self._groups[stage]
        if groups is None:
            mask = self.stage_masks[stage]
            if stage < self.num_merges:
                groups = tuple(1 << index for index in bits_of(mask))
            else:
                groups = components(mask, self._neighbours)
            self._groups[stage] = groups
        return groups

    def count_schedules(self) -> int:
        """Number of ways from the full state to the empty one; O(transitions)."""
        counts = [1]
        for state in range(1, len(self._states)):
            targets = self._next_of[self._first[state] : self._first[state + 1]]
            counts.append(sum([counts[target] for target in targets]))
        return counts[-1]

    def start(self, prices_ns: Sequence[int], *, priced: bool) -> None:
        """Give every stage a price or a bound, and solve every state."""
        extra = 1 if priced else 1 + UNPRICED
        self._priced = bytearray([priced]) * len(self.stage_masks)
        self._weights = [(price << WEIGHT_SHIFT) + extra for price in prices_ns]
        self._values = [0] * len(self._states)
        self._best = [-1] * len(self._states)
        for state in range(1, len(self._states)):
            self._solve(state)

    def settle(
        self, stages: Sequence[int], prices_ns: Sequence[int], floors_ns: Sequence[int]
    ) -> None:
        """Price stages, raise bounds of stages that contain them, solve the states this reaches."""
        cheaper = []
        changed = set(stages)
        for stage, price in zip(stages, prices_ns, strict=True):
            weight = (price << WEIGHT_SHIFT) + 1
            if price < self._weights[stage] >> WEIGHT_SHIFT:
                cheaper.append(self.stage_masks[stage])
            self._weights[stage] = weight
            self._priced[stage] = 1
        for stage, floor in zip(stages, floors_ns, strict=True):
            changed.update(self._raise_containing(stage, (floor << WEIGHT_SHIFT) + 1 + UNPRICED))
        self._update(changed, cheaper)

    def _raise_containing(self, stage: int, weight: int) -> list[int]:
        mask = self.stage_masks[stage]
        groups = self.stage_groups(stage)
        merged = stage < self.num_merges
        raised = []
        begin = 0 if merged or mask.bit_count() == 1 else self.num_merges
        end = self.num_merges if merged else len(self.stage_masks)
        for other in range(begin, end):
            if (
                mask & self.stage_masks[other] == mask
                and self._weights[other] < weight
                and not self._priced[other]
                and (
                    len(groups) == 1
                    or merged
                    or sum([1 for group in self.stage_groups(other) if group & mask]) == len(groups)
                )
            ):
                self._weights[other] = weight
                raised.append(other)
        return raised

    def _update(self, changed: set[int], cheaper: Sequence[int]) -> None:
        # But for cheaper stages no way became shorter: a best way that nothing touched stays best.
        moved = bytearray(len(self._states))
        for state in range(1, len(self._states)):
            best = self._best[state]
            if (
                self._stage_of[best] in changed
                or moved[self._next_of[best]]
                or any(mask & self._states[state] == mask for mask in cheaper)
            ):
                before = self._values[state]
                self._solve(state)
                moved[state] = self._values[state] != before

    def _solve(self, state: int) -> None:
        begin, end = self._first[state], self._first[state + 1]
        weights, values = self._weights, self._values
        candidates = [
            weights[stage] + values[target]
            for stage, target in zip(
                self._stage_of[begin:end], self._next_of[begin:end], strict=True
            )
        ]
        least = min(candidates)
        self._values[state] = least
        self._best[state] = begin + candidates.index(least)

    def keep_priced_only(self) -> None:
        """Solve every state with priced stages only."""
        # Dearer than any way of priced stages, none of which runs twice.
        beyond = 1 + sum(w for w, done in zip(self._weights, self._priced, strict=True) if done)
        self._weights = [
            weight if done else beyond
            for weight, done in zip(self._weights, self._priced, strict=True)
        ]
        for state in range(1, len(self._states)):
            self._solve(state)

    def best_weight(self) -> int:
        """Weight of the best way from the full state."""
        return self._values[-1]

    def best_path(self) -> list[int]:
        """Stages of the best way, in the order they run."""
        position = {state: index for index, state in enumerate(self._states)}
        path = []
        state = self._states[-1]
        while state:
            stage = self._stage_of[self._best[position[state]]]
            path.append(stage)
            state ^= self.stage_masks[stage]
        path.reverse()
        return path


def _submasks(mask: int) -> list[int]:
    """Every nonempty submask, ascending as numbers."""
    found = []
    sub = mask
    while sub:
        found.append(sub)
        sub = (sub - 1) & mask
    found.reverse()
    return found
