"""Products of a quantised model: which are computed in int8, and why others are not. No TVM."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule

__all__ = ["INPUTS", "WEIGHTS", "QuantisedProducts"]

INPUTS = "of two computed inputs"
WEIGHTS = "with weights that are no steps of int8"
"""Reasons why products multiply numbers of float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisedProducts:
    """Convolutions and products of a quantised model that multiply numbers of float32.

    Those that multiply whole numbers are the operators of its graph that are
    :attr:`~tvm_ios.core.graph.Operator.whole`.
    """

    others: tuple[tuple[str, int], ...]
    """Reasons, and number of products for each."""
    never: str = ""
    """Reason why no product multiplies whole numbers; empty where some may."""

    def line(self, graph: OperatorGraph, schedule: InterOpSchedule) -> str:
        """Line for people on what a schedule computes in int8; empty where there is no product."""
        whole = {index for index, operator in enumerate(graph.operators) if operator.whole}
        called = {index for row in schedule.libraries or () for index in row.operators}
        total = len(whole) + sum(count for _, count in self.others)
        if not total:
            return ""
        if self.never:
            return (
                f"quantised: all {total} products are computed in float32, since {self.never}; "
                "the float32 original would likely be faster, as it rounds nothing"
            )
        rest = [("by kernels that read bytes", len(whole - called)), *self.others]
        told = ", ".join(f"{count} {reason}" for reason, count in rest if count)
        in_float32 = f"; in float32: {told}" if told else ""
        return f"quantised: {len(whole & called)} of {total} products are in int8{in_float32}"
