"""Prices of merge stages, with their effects on the kernels around them.

A merge stage costs its kernels, plus kernels that others need because of it, less kernels that
others need no more: concatenations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from operator import itemgetter
from typing import Any

from tvm_ios.core.schedule import Stage
from tvm_ios.cost.measured import Way
from tvm_ios.plan.merge_effects import MergeEffects, merge_effects, stage_outputs
from tvm_ios.profile.kernel_variant import Bytes, VariantGraph, with_slices, with_variants
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.operator_prices import TVM

__all__ = ["MergePrices", "StageTerms", "could_be_whole", "effects_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTerms:
    """Terms of the price of one stage."""

    rivals: Mapping[str, Way] = field(default_factory=dict)
    """Ways to run the stage as a whole, by maker, of which the fastest counts."""
    added: tuple[Way, ...] = ()
    """Operators that run by themselves, one after another."""
    removed: tuple[Way, ...] = ()
    """Operators that need not run because of the stage."""
    overhead_ns: int = 0
    """Nanoseconds that the stage costs more in a network than by itself."""

    @property
    def ways(self) -> tuple[Way, ...]:
        """Ways of all terms, which have to be measured."""
        return (*self.rivals.values(), *self.added, *self.removed)

    def sum_ns(self, way_ns: Callable[[Way], int]) -> int:
        """Nanoseconds of the stage, given those of each way; may be below 1."""
        fastest_ns = min(map(way_ns, self.rivals.values()), default=0)
        around_ns = sum(map(way_ns, self.added)) - sum(map(way_ns, self.removed))
        return fastest_ns + around_ns + self.overhead_ns


class MergePrices:
    """Prices of the merge stages of one built module, under one choice of makers.

    ``graphs`` has the kernels of each maker, and ``chosen`` those of each operator's own maker.
    """

    def __init__(
        self, kernels: MeasuredKernels, graphs: Mapping[str, VariantGraph], chosen: VariantGraph
    ) -> None:
        self._kernels = kernels
        self._graphs = graphs
        self._chosen = chosen
        self._staged = kernels.runner.built.kernels.staged
        self._effects_of = cache(partial(effects_of, self._staged))
        self._sliced = cache(lambda maker, copied: with_slices(graphs[maker], copied))

    def terms(self, stage: Stage) -> StageTerms:
        """Terms of the price of a merge stage."""
        effects = self._effects(stage)
        apart = effects.added  # rarely any, and naming every operator anew takes long
        return StageTerms(
            rivals={
                maker: (self._sliced(maker, effects.copied), stage)
                for maker in self._kernels.runner.makers_of(stage.operators)
            },
            added=_singles(self._apart(apart), apart) if apart else (),
            removed=_singles(self._chosen, effects.removed),
        )

    def fastest_maker(self, stage: Stage) -> str:
        """Maker that computes a merge stage fastest; among equals the first."""
        rivals = self.terms(stage).rivals
        if len(rivals) == 1:
            return next(iter(rivals))
        return min(zip(self._priced_ns(rivals.values()), rivals, strict=True), key=itemgetter(0))[1]

    def bound_ns(self, stage: Stage, *, flops_per_ns: float) -> int:
        """Lower bound of a merge stage's price in nanoseconds, before it is compiled.

        The merged convolution reaches ``flops_per_ns`` at most, and concatenations of what it
        writes may need no kernel any more.
        """
        operators = self._kernels.graph.operators
        wholes = could_be_whole(self._staged.extraction, stage.operators[0])
        saved_ns = sum(self._priced_ns(_singles(self._chosen, wholes)))
        flops = sum(operators[index].flops for index in stage.operators)
        return max(0, int(flops / flops_per_ns) - saved_ns)

    def floor_ns(self, stage: Stage, price_ns: int) -> int:
        """Floor in nanoseconds: no stage that contains this one costs less; may be below 0.

        A merge stage with more members may be a concatenation, or need no copies any more.
        """
        if not stage.is_merge and len(stage.operators) > 1:
            return price_ns  # only merges are cheaper by what is around them
        wholes = could_be_whole(self._staged.extraction, stage.operators[0])
        saved_ns = sum(self._priced_ns(_singles(self._chosen, wholes)))
        if not stage.is_merge:
            return price_ns - saved_ns
        if wholes and self._effects(stage).copied:
            return 0
        terms = self.terms(stage)
        added_ns = sum(self._priced_ns(terms.added)) - sum(self._priced_ns(terms.removed))
        return price_ns - added_ns - saved_ns

    def _priced_ns(self, ways: Iterable[Way]) -> list[int]:
        return self._kernels.measured.price([[way] for way in ways])

    def _apart(self, operators: Collection[int]) -> VariantGraph:
        """Graph with kernels of TVM's for some operators in place of views."""
        own = self._graphs[TVM]
        codes = self._staged.kernel_codes
        return with_variants(
            own,
            [
                replace(variant, code=codes[index], bytes=Bytes.APART)
                if index in operators
                else variant
                for index, variant in enumerate(own.variants)
            ],
        )

    def _effects(self, stage: Stage) -> MergeEffects:
        return self._effects_of(tuple(group[0] for group in stage.groups))


def effects_of(staged: Any, members: tuple[int, ...]) -> MergeEffects:
    """Effects of a merge on a network without merges; members in the order of their channels.

    ``staged`` is the ``StagedBuild`` of a dialect.
    """
    graph, extraction = staged.graph, staged.extraction
    (output,) = graph.operators[members[0]].outputs
    before = graph.tensors[output].shape[: extraction.patterns[members[0]].channel_axis]
    return merge_effects(
        graph,
        [placement.view for placement in staged.placements],
        stage_outputs(extraction, members),
        contiguous=math.prod(before) == 1,
    )


def could_be_whole(extraction: Any, member: int) -> tuple[int, ...]:
    """Concatenations that a merge stage with this member, or a part of one, may be."""

    def operand(index: int) -> str | None:
        convolution = extraction.graph.operators[index].convolution
        return None if convolution is None else convolution.operand

    own = operand(member)
    if own is None:
        return ()
    return tuple(
        index
        for index, joined in enumerate(extraction.joins)
        if joined and all(operand(other) == own for other in joined)
    )


def _singles(graph: VariantGraph, operators: Iterable[int]) -> tuple[Way, ...]:
    """Operators of a graph, each run by itself; views cost nothing."""
    return tuple((graph, Stage(((index,),))) for index in operators)
