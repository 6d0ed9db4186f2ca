"""Keys that name a stage by what decides its price, so equal stages share one measurement.

A price has two keys: :func:`stage_profile_key` for the stage, :class:`ProfileContext` for the
conditions. Neither holds a name or an index of a graph.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.errors import CostError, OptionError

__all__ = ["MEASUREMENT_PROTOCOL", "ProfileContext", "digest_of", "stage_profile_key"]

MEASUREMENT_PROTOCOL = 4
"""Version of the way stages are timed; goes up when a price means something else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileContext:
    """Conditions that decide a price besides the stage."""

    device: str
    """Device of the kernels: processor model and instruction set, or GPU and driver."""
    lanes: int
    tvm_version: str
    """Version and commit of TVM, and versions of its compilers."""
    kernels: str
    """Text of what decides a kernel's code besides its workload: target, tuning records."""
    executor: str = ""
    """Version or digest of the runtime that starts the kernels."""
    protocol: int = MEASUREMENT_PROTOCOL

    def __post_init__(self) -> None:
        if self.lanes < 1:
            raise OptionError(f"lanes is {self.lanes}; prices need at least one lane")

    def as_json(self) -> str:
        """Canonical JSON of the context, for people who open the database."""
        return json.dumps(asdict(self), sort_keys=True)

    def digest(self) -> str:
        """Digest of the context; equal for equal contexts only."""
        return digest_of(asdict(self))


def stage_profile_key(graph: OperatorGraph, stage: Stage) -> str:
    """Digest of a stage: workloads, edges, grouping, order, shared inputs, and strategy.

    Equal stages of any two graphs get equal keys, whatever their names, indices, and order of
    groups. A tensor from outside is known by its readers, so a shared input counts (it saves cache
    misses), but not its origin. Groups that look alike are told apart by colour refinement
    (Weisfeiler and Leman, 1968) rather than by permutations. Stages that it cannot tell apart have
    the same groups and differ only in a sharing pattern.

    Complexity: for every group at most one pass over the reads of the stage.
    """
    readers = _readers_of_outside_tensors(graph, stage)
    colours = [_group_digest(graph, group) for group in stage.groups]
    kinds = len(set(colours))
    # The first pass must run even where all groups differ: it adds the sharing to the key.
    while True:
        reads: list[list[tuple[list[int], str]]] = [[] for _ in colours]
        for positions_of in readers.values():
            tensor = digest_of(sorted((colours[g], places) for g, places in positions_of.items()))
            for group, places in positions_of.items():
                reads[group].append((places, tensor))
        colours = [
            digest_of([colour, sorted(read)]) for colour, read in zip(colours, reads, strict=True)
        ]
        refined = len(set(colours))
        if refined == kinds:
            return digest_of([stage.strategy.value, sorted(colours)])
        kinds = refined


def _readers_of_outside_tensors(
    graph: OperatorGraph, stage: Stage
) -> dict[int | str, dict[int, list[int]]]:
    """Positions in each group that read each tensor made outside the stage."""
    slots = {
        index: (number, position)
        for number, group in enumerate(stage.groups)
        for position, index in enumerate(group)
    }
    readers: dict[int | str, dict[int, list[int]]] = {}
    for index, slot in slots.items():
        operator = graph.operators[index]
        for tensor in _tensors_read(operator):
            source = slots.get(tensor) if isinstance(tensor, int) else None
            if source is None:
                readers.setdefault(tensor, {}).setdefault(slot[0], []).append(slot[1])
            elif source[0] != slot[0] or source[1] >= slot[1]:
                where = "in another group" if source[0] != slot[0] else "later in its group"
                raise CostError(
                    f"graph {graph.name!r}: operator {operator.name!r} reads "
                    f"{graph.operators[int(tensor)].name!r}, which runs {where} of the same stage "
                    f"{stage.groups}; verify the schedule before pricing it"
                )
    return readers


def _tensors_read(operator: Operator) -> tuple[int | str, ...]:
    """Producers of an operator's inputs; for a network input, which has none, its identity."""
    if operator.predecessors or operator.convolution is None:
        return operator.predecessors
    return (operator.convolution.operand,)


def _group_digest(graph: OperatorGraph, group: tuple[int, ...]) -> str:
    """Digest of the workloads of a group in the order they run, and of the edges among them."""
    position = {index: place for place, index in enumerate(group)}
    return digest_of(
        [
            (
                _workload_digest(graph.operators[index].workload),
                sorted(position[p] for p in graph.operators[index].predecessors if p in position),
            )
            for index in group
        ]
    )


@lru_cache(maxsize=1 << 16)
def _workload_digest(workload: str) -> str:
    """Digest of a workload, cached: workloads are long texts that occur in thousands of stages."""
    return digest_of(workload)


def digest_of(value: Any) -> str:
    """Digest of a value as JSON, 32 hexadecimal digits; a key of facts in the profile database."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
