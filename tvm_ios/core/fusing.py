"""Nodes of a model before a compiler fuses them, and the operator graph that fusing would give.

Comes before everything else where a model is only looked at: no dialect is needed, and nothing is
compiled. Fusing here is what compilers agree on: an element-wise node belongs to what it follows.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tvm_ios.core.graph import Operator, OperatorGraph

__all__ = ["ModelNode", "NodeRole", "fused_graph"]


class NodeRole(Enum):
    """Role of a node when a compiler fuses."""

    COMPUTES = "computes"
    """The node begins a kernel of its own."""
    FOLLOWS = "follows"
    """The node is element-wise, and joins the kernel that it follows."""
    VIEW = "view"
    """The node moves whole pieces of memory, so a memory plan needs no kernel for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNode:
    """A node of a model as its author wrote it; constants are folded."""

    kind: str
    role: NodeRole
    inputs: Mapping[int, int]
    """Bytes that it reads of each node before it."""
    flops: int
    own_bytes: int
    """Bytes of weights and of the model's inputs that it reads."""
    output_bytes: int
    output_elements: int
    """Number of elements of its largest result."""
    whole: bool = False
    """True if it multiplies whole numbers of one byte, where processors can."""
    is_output: bool = False
    """True if its result is one of the model's."""


def fused_graph(name: str, nodes: Sequence[ModelNode]) -> OperatorGraph:
    """Operator graph of a model's nodes, which stand in a topological order."""
    readers: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        for source in node.inputs:
            readers[source].append(number)
    # An operator runs where its last member stood: only then is all there that it reads.
    kernels = sorted(_kernels(nodes, readers), key=max)
    kernel_of = {number: place for place, kernel in enumerate(kernels) for number in kernel}
    seen: Counter[str] = Counter()
    operators = []
    for kernel in kernels:
        kind = nodes[kernel[0]].kind
        read = {
            source: size
            for number in kernel
            for source, size in nodes[number].inputs.items()
            if source not in kernel
        }
        own_bytes = sum(nodes[number].own_bytes for number in kernel)
        last = nodes[max(kernel)]
        operators.append(
            Operator(
                name=f"{kind}_{seen[kind]}",
                kind=kind,
                predecessors=tuple(sorted({kernel_of[source] for source in read})),
                workload=kind,
                flops=sum(nodes[number].flops for number in kernel),
                memory_bytes=own_bytes + sum(read.values()) + last.output_bytes,
                output_elements=last.output_elements,
                view=last.role is NodeRole.VIEW,
                whole=any(nodes[number].whole for number in kernel),
            )
        )
        seen[kind] += 1
    return OperatorGraph(name, tuple(operators))


def _kernels(nodes: Sequence[ModelNode], readers: Sequence[Sequence[int]]) -> list[list[int]]:
    """Nodes of each kernel, of which the first gives it its kind; those that compute choose."""
    taken: set[int] = set()
    kernels = []
    for role in (NodeRole.COMPUTES, NodeRole.FOLLOWS, NodeRole.VIEW):
        for number, node in enumerate(nodes):
            if node.role is not role or number in taken:
                continue
            kernel, end = [number], number
            while role is not NodeRole.VIEW:
                joined = _followers(nodes, readers, end)
                if not joined or not taken.isdisjoint(joined):
                    break
                kernel += joined
                end = max(joined)
            taken.update(kernel)
            kernels.append(kernel)
    return kernels


def _followers(
    nodes: Sequence[ModelNode], readers: Sequence[Sequence[int]], number: int
) -> list[int]:
    """Element-wise nodes up to the first one that all ways from a node lead through; or none."""
    inside: list[int] = []
    pending = list(readers[number])
    here = nodes[number]
    while pending and not here.is_output:
        following = heapq.heappop(pending)
        here = nodes[following]
        elements = nodes[number].output_elements
        if here.role is not NodeRole.FOLLOWS or here.output_elements != elements:
            break
        inside.append(following)
        if not pending:
            return inside
        for reader in readers[following]:
            if reader not in pending:
                heapq.heappush(pending, reader)
        if not readers[following]:
            break
    return []
