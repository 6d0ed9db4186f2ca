"""Deadlines of the parts of a joined network, as times of its operators. No TVM here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm_ios.core.parts import Part, parts_named
from tvm_ios.plan.kernel_graph import KernelGraph

__all__ = ["due_operators"]


def due_operators(
    graph: KernelGraph, parts: Sequence[Part], deadlines_ms: Mapping[str, float]
) -> dict[int, int]:
    """Nanoseconds until which operators that write outputs of parts with a deadline are due.

    Raises
    ------
    OptionError
        If there is no part of a name.
    """
    if not deadlines_ms:
        return {}
    writers = {
        tensor: index
        for index, operator in enumerate(graph.operators)
        for tensor in operator.outputs
    }
    due: dict[int, int] = {}
    for part in parts_named(parts, deadlines_ms):
        until_ns = round(deadlines_ms[part.name] * 1e6)
        for number in part.outputs:
            index = writers.get(graph.outputs[number])
            if index is not None:  # None for an input that is an output as it is
                due[index] = min(until_ns, due.get(index, until_ns))
    return due
