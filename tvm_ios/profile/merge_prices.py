"""Prices of merge stages, with their effects on the kernels around them.

A merge stage costs its kernels, plus kernels that others need because of it, less kernels that
others need no more: concatenations (see :mod:`tvm_ios.profile.merge_surroundings`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.measured import MeasuredStages
from tvm_ios.plan.merge_effects import MergeEffects
from tvm_ios.profile.kernel_variant import Bytes, VariantGraph, with_slices, with_variants
from tvm_ios.profile.merge_surroundings import MergeSurroundings

__all__ = ["KernelChoice", "MergePrices"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelChoice:
    """A graph with each of the kernels that may compute it."""

    own: VariantGraph
    """Graph with TVM's own kernels."""
    libraries: Mapping[str, VariantGraph]
    """Graph with the calls of each operator library, by the library's key in files."""
    chosen: VariantGraph
    """Graph with the fastest kernel of each operator."""


class MergePrices:
    """Prices of the merge stages of one built module.

    ``measured`` prices stages by themselves; ``able`` are the operators that each operator library
    can compute, by its key in files.
    """

    def __init__(
        self, built: BuiltModel, measured: MeasuredStages, able: Mapping[str, Collection[int]]
    ) -> None:
        self._built = built
        self._measured = measured
        self._able = {library: frozenset(indices) for library, indices in able.items()}
        self._surroundings = MergeSurroundings(built.kernels.staged)

    def price(self, kernels: KernelChoice, stages: Sequence[Stage]) -> dict[Stage, int]:
        """Nanoseconds that each stage adds to the network, at least 1."""
        batches: dict[tuple[int, ...], list[Stage]] = {}
        for stage in stages:
            batches.setdefault(self._effects(stage).copied, []).append(stage)
        measured_ns: dict[Stage, int] = {}
        for copied, batch in batches.items():
            measured_ns |= self._price_alone(kernels.own, copied, batch)
            for library, graph in kernels.libraries.items():
                able = [stage for stage in batch if self._can_compute(library, stage)]
                for stage, price_ns in self._price_alone(graph, copied, able).items():
                    measured_ns[stage] = min(measured_ns[stage], price_ns)
        return {
            stage: max(1, measured_ns[stage] + self._around_ns(kernels, stage)) for stage in stages
        }

    def fastest_library(self, kernels: KernelChoice, stage: Stage) -> str | None:
        """Operator library that computes a merge stage faster than TVM's kernel and all others.

        None where TVM's kernel is as fast, and for a stage that is no merge.
        """
        able = [library for library in kernels.libraries if self._can_compute(library, stage)]
        if not able:
            return None
        copied = self._effects(stage).copied
        best_ns, best = self._price_alone(kernels.own, copied, [stage])[stage], None
        for library in able:
            price_ns = self._price_alone(kernels.libraries[library], copied, [stage])[stage]
            if price_ns < best_ns:
                best_ns, best = price_ns, library
        return best

    def floor_ns(self, kernels: KernelChoice, stage: Stage, price_ns: int) -> int:
        """Floor in nanoseconds: no stage that contains this one costs less; may be below 0.

        A merge stage with more members may be a concatenation, or need no copies any more.
        """
        if not stage.is_merge and len(stage.operators) > 1:
            return price_ns  # only merges are cheaper by what is around them
        wholes = self._surroundings.could_be_whole(stage.operators[0])
        if not stage.is_merge:
            return price_ns - self._kernels_ns(kernels.chosen, wholes)
        if wholes and self._effects(stage).copied:
            return 0
        around_ns = self._around_ns(kernels, stage) + self._kernels_ns(kernels.chosen, wholes)
        return price_ns - around_ns

    def _price_alone(
        self, graph: VariantGraph, copied: tuple[int, ...], stages: Sequence[Stage]
    ) -> dict[Stage, int]:
        sliced = with_slices(graph, copied)
        prices_ns = self._measured.price([[(sliced, stage)] for stage in stages])
        return dict(zip(stages, prices_ns, strict=True))

    def _can_compute(self, library: str, stage: Stage) -> bool:
        """True if a library can compute a merge: it can if it computes each member."""
        return stage.is_merge and self._able[library] >= set(stage.operators)

    def _around_ns(self, kernels: KernelChoice, stage: Stage) -> int:
        """Nanoseconds that a merge stage adds to the prices of other operators."""
        effects = self._effects(stage)
        added_ns = 0
        if effects.added:  # rarely, and naming every operator anew takes long
            added_ns = self._kernels_ns(self._apart(kernels.own, effects.added), effects.added)
        return added_ns - self._kernels_ns(kernels.chosen, effects.removed)

    def _kernels_ns(self, graph: VariantGraph, operators: Iterable[int]) -> int:
        """Price of operators in nanoseconds, each run by itself; views cost nothing."""
        return sum(self._measured.price([[(graph, Stage(((index,),)))] for index in operators]))

    def _apart(self, graph: VariantGraph, operators: Collection[int]) -> VariantGraph:
        """Graph with kernels for some operators in place of views."""
        codes = self._built.kernels.staged.kernel_codes
        return with_variants(
            graph,
            [
                replace(variant, code=codes[index], library=None, bytes=Bytes.APART)
                if index in operators
                else variant
                for index, variant in enumerate(graph.variants)
            ],
        )

    def _effects(self, stage: Stage) -> MergeEffects:
        return self._surroundings.effects([group[0] for group in stage.groups])
