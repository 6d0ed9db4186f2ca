"""Prices of merge stages, with what they do to the kernels around them.

A merge stage costs what its kernels cost, and each kernel that others need because of it, less each
kernel they need no more: concatenations (:mod:`tvm_ios.merge_surroundings` says which).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from tvm_ios.compiled import BuiltModel
from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.protocol import CostModel
from tvm_ios.kernel_identity import UNSPLIT
from tvm_ios.merge_surroundings import APART, MergeSurroundings, with_slices
from tvm_ios.plan.merge_effects import MergeEffects

__all__ = ["KernelChoice", "MergePrices"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelChoice:
    """One graph under the names of the kernels that may compute it."""

    own: OperatorGraph
    """TVM's."""
    cudnn: OperatorGraph
    """cuDNN's where it has any."""
    chosen: OperatorGraph
    """The faster one of each operator."""


class MergePrices:
    """Prices merge stages of one built module.

    Parameters
    ----------
    built
        The module and its kernels.
    measured
        Prices stages by themselves.
    able
        Operators that cuDNN can compute.
    """

    def __init__(self, built: BuiltModel, measured: CostModel, able: Collection[int]) -> None:
        self._built = built
        self._measured = measured
        self._able = frozenset(able)
        self._surroundings = MergeSurroundings(built.kernels.staged)

    def price(self, kernels: KernelChoice, stages: Sequence[Stage]) -> dict[Stage, int]:
        """What each stage adds to the network, in nanoseconds, at least 1.

        Raises
        ------
        CostError
            If a stage cannot be run.
        """
        batches: dict[tuple[int, ...], list[Stage]] = {}
        for stage in stages:
            batches.setdefault(self._effects(stage).copied, []).append(stage)
        measured_ns: dict[Stage, int] = {}
        for copied, batch in batches.items():
            measured_ns |= self._price_alone(kernels.own, copied, batch)
            able = [stage for stage in batch if self._can_use_cudnn(stage)]
            for stage, price_ns in self._price_alone(kernels.cudnn, copied, able).items():
                measured_ns[stage] = min(measured_ns[stage], price_ns)
        return {
            stage: max(1, measured_ns[stage] + self._around_ns(kernels, stage)) for stage in stages
        }

    def fastest_by_cudnn(self, kernels: KernelChoice, stage: Stage) -> bool:
        """Whether a stage is a merge for which cuDNN is the faster one.

        Raises
        ------
        CostError
            If the stage cannot be run.
        """
        if not self._can_use_cudnn(stage):
            return False
        copied = self._effects(stage).copied
        own_ns, their_ns = (
            self._price_alone(graph, copied, [stage])[stage]
            for graph in (kernels.own, kernels.cudnn)
        )
        return their_ns < own_ns

    def floor_ns(self, kernels: KernelChoice, stage: Stage, price_ns: int) -> int:
        """What no stage that contains this one costs less than; may be below 0.

        A merge stage with more members may be a concatenation, or need no copies any more.

        Parameters
        ----------
        price_ns
            The price of this stage.
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
        self, graph: OperatorGraph, copied: tuple[int, ...], stages: Sequence[Stage]
    ) -> dict[Stage, int]:
        prices_ns = self._measured.price(with_slices(graph, copied), stages)
        return dict(zip(stages, prices_ns, strict=True))

    def _can_use_cudnn(self, stage: Stage) -> bool:
        """What computes each member computes all."""
        return stage.is_merge and self._able >= set(stage.operators)

    def _around_ns(self, kernels: KernelChoice, stage: Stage) -> int:
        """What a merge stage adds to the prices of other operators."""
        effects = self._effects(stage)
        added_ns = self._kernels_ns(self._apart(kernels.own, effects.added), effects.added)
        return added_ns - self._kernels_ns(kernels.chosen, effects.removed)

    def _kernels_ns(self, graph: OperatorGraph, operators: Iterable[int]) -> int:
        """The price of operators, each run by itself; views cost nothing."""
        return sum(self._measured.price(graph, [Stage(((index,),)) for index in operators]))

    def _apart(self, graph: OperatorGraph, operators: Collection[int]) -> OperatorGraph:
        """The graph with the kernels of these operators in the place of views."""

        def named(index: int, operator: Operator) -> Operator:
            plain = self._built.graph.operators[index].workload
            code = self._built.kernels.staged.kernel_codes[index]
            alone = UNSPLIT if operator.workload.endswith(UNSPLIT) else ""
            return replace(operator, workload=f"{plain}@{code}{APART}{alone}")

        return OperatorGraph(
            graph.name,
            tuple(
                named(index, operator) if index in operators else operator
                for index, operator in enumerate(graph.operators)
            ),
        )

    def _effects(self, stage: Stage) -> MergeEffects:
        return self._surroundings.effects([group[0] for group in stage.groups])
