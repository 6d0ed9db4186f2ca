"""Operators around a merge stage whose prices are added or saved because of it.

Comes between effects on the plan (:mod:`tvm_ios.plan.merge_effects`) and prices: says what has to
be measured under which name, and measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.plan.merge_effects import MergeEffects, merge_effects
from tvm_ios.relay.build import StagedBuild
from tvm_ios.relay.merge import slices_are_contiguous, stage_outputs

__all__ = ["MergeSurroundings"]


class MergeSurroundings:
    """Network without merges, that merge stages are put into."""

    def __init__(self, staged: StagedBuild) -> None:
        self._extraction = staged.extraction
        self._graph = staged.graph
        self._views = [placement.view for placement in staged.placements]
        self._known: dict[tuple[int, ...], MergeEffects] = {}

    def effects(self, members: Sequence[int]) -> MergeEffects:
        """Effects of a merge on the plan; members in the order of their channels."""
        key = tuple(members)
        if key not in self._known:
            self._known[key] = merge_effects(
                self._graph,
                self._views,
                stage_outputs(self._extraction, key),
                contiguous=slices_are_contiguous(self._extraction, key[0]),
            )
        return self._known[key]

    def could_be_whole(self, member: int) -> tuple[int, ...]:
        """Concatenations that a merge stage with this member, or a part of one, may be."""
        own = self._operand(member)
        if own is None:
            return ()
        return tuple(
            index
            for index, joined in enumerate(self._extraction.joins)
            if joined and all(self._operand(other) == own for other in joined)
        )

    def _operand(self, index: int) -> str | None:
        convolution = self._extraction.graph.operators[index].convolution
        return None if convolution is None else convolution.operand
