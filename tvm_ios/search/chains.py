"""Contraction of chains of operators into schedule units, before the search sees the graph.

Where the only reader of an operator reads nothing else, the two are best run one after the other on
the same core. The published benchmark joins them by hand (its ReluSepConv is one unit of three
kernels). Fewer units mean far fewer states, so blocks need less splitting.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.merge_rule import why_not_merge
from tvm_ios.core.schedule import Stage

__all__ = ["Contraction", "contract_chains"]


@dataclass(frozen=True, slots=True)
class Contraction:
    """A graph of units, and the operators in each unit."""

    graph: OperatorGraph
    members: tuple[tuple[int, ...], ...]
    """Operators of the original graph in each unit, ascending."""

    def expand(self, stage: Stage) -> Stage:
        """A stage of units as a stage of operators."""
        return Stage(
            tuple(
                tuple(sorted(index for unit in group for index in self.members[unit]))
                for group in stage.groups
            ),
            stage.strategy,
        )

    def expand_operators(self, units: Sequence[int]) -> tuple[int, ...]:
        """Operators of some units, ascending."""
        return tuple(sorted(index for unit in units for index in self.members[unit]))


def contract_chains(
    graph: OperatorGraph,
    *,
    max_chain_size: int,
    keep_mergeable: bool,
    pad_kernels: bool = True,
) -> Contraction:
    """Join chains of operators without branches into units.

    ``keep_mergeable`` leaves out convolutions that could merge with another one, which with
    ``pad_kernels`` may have a kernel of another size.
    """
    successors = graph.successor_masks()
    fixed = _mergeable(graph, pad_kernels=pad_kernels) if keep_mergeable else frozenset()
    chains: list[list[int]] = []
    chain_of: list[int] = []
    for index, operator in enumerate(graph.operators):
        previous = operator.predecessors[0] if len(operator.predecessors) == 1 else None
        if (
            previous is not None
            and successors[previous].bit_count() == 1
            and operator.schedulable
            and graph.operators[previous].schedulable
            and not {index, previous} & fixed
            and len(chains[chain_of[previous]]) < max_chain_size
        ):
            chain_of.append(chain_of[previous])
            chains[chain_of[index]].append(index)
        else:
            chain_of.append(len(chains))
            chains.append([index])
    units = tuple(_unit(graph, chain, chain_of) for chain in chains)
    return Contraction(OperatorGraph(graph.name, units), tuple(map(tuple, chains)))


def _unit(graph: OperatorGraph, chain: Sequence[int], chain_of: Sequence[int]) -> Operator:
    operators = [graph.operators[index] for index in chain]
    before = tuple(sorted({chain_of[previous] for previous in operators[0].predecessors}))
    if len(operators) == 1:
        return replace(operators[0], predecessors=before)
    workload = "\n".join(operator.workload for operator in operators)
    return Operator(
        name=f"{operators[0].name}..{operators[-1].name}",
        kind="chain",
        predecessors=before,
        workload=f"chain-{hashlib.sha256(workload.encode()).hexdigest()[:16]}",
        flops=sum(operator.flops for operator in operators),
        memory_bytes=sum(operator.memory_bytes for operator in operators),
        output_elements=operators[-1].output_elements,
    )


def _mergeable(graph: OperatorGraph, *, pad_kernels: bool) -> frozenset[int]:
    """Convolutions that may merge with another one of the graph."""
    by_operand: dict[str, list[int]] = {}
    for index, operator in enumerate(graph.operators):
        if operator.convolution is not None:
            by_operand.setdefault(operator.convolution.operand, []).append(index)
    found = set()
    for row in by_operand.values():
        for index in row:
            for other in row:
                pair = [graph.operators[i].convolution for i in (index, other)]
                if index != other and why_not_merge(pair, pad_kernels=pad_kernels) is None:
                    found.add(index)
    return frozenset(found)
