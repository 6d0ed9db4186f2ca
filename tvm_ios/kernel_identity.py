"""Names operators by their kernels, so that no price outlives the code it was taken of.

What else decides a price is written behind the code: help of idle lanes, a call of cuDNN
(:mod:`tvm_ios.cudnn_pricing`), slices of a merged convolution (:mod:`tvm_ios.merge_surroundings`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from tvm_ios.compiled import BuiltModel
from tvm_ios.core.graph import OperatorGraph

__all__ = ["UNSPLIT", "with_kernel_identity", "without_help"]

UNSPLIT = "@one-lane"
"""Ends the workload of an operator that idle lanes do not help with."""


def with_kernel_identity(
    built: BuiltModel, needs_no_kernel: Callable[[int], bool]
) -> OperatorGraph:
    """The graph of a built model, with the code of each kernel in its workload.

    Tuning records and pass options give one workload different kernels, and the graph around a
    concatenation decides whether it needs a kernel at all: no price may outlive that.

    Parameters
    ----------
    built
        The model.
    needs_no_kernel
        Whether an operator became a view.
    """
    graph = built.graph
    codes = built.kernels.staged.kernel_codes
    return OperatorGraph(
        graph.name,
        tuple(
            replace(
                operator,
                workload=f"{operator.workload}@"
                + ("view" if needs_no_kernel(index) else codes[index]),
            )
            for index, operator in enumerate(graph.operators)
        ),
    )


def without_help(graph: OperatorGraph, operators: Collection[int]) -> OperatorGraph:
    """The graph with these operators marked to run on one lane each."""
    chosen = frozenset(operators)
    return OperatorGraph(
        graph.name,
        tuple(
            replace(operator, workload=operator.workload + UNSPLIT) if index in chosen else operator
            for index, operator in enumerate(graph.operators)
        ),
    )
