"""The operator graph: a model as the search sees it, without TVM.

An operator is one fused primitive function, as in the paper (Ding et al., MLSys 2021, section 3).
Operators are numbered 0..n-1 in a topological order, and an edge is a data dependency.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tvm_ios.errors import GraphError

__all__ = [
    "Convolution",
    "Coverage",
    "Obstacle",
    "Operator",
    "OperatorGraph",
    "bits_of",
    "mask_of",
    "unique_names",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """Geometry, operand and epilogue of a convolution, as the merge rule needs them."""

    operand: str
    """Identity of the data operand: equal strings mean the same tensor (and channel slice)."""
    plain_operand: bool
    """False where the operator itself sums or concatenates its operand first."""
    input_shape: tuple[int, int, int]
    """Shape of the operand: channels, height, width."""
    out_channels: int
    kernel: tuple[int, int]
    """Kernel size: height, width."""
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    """Zeros around the data: top, left, bottom, right."""
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    epilogue: str
    """Text of what follows in the operator (bias, activation); equal texts mean equal epilogues."""
    layout: str = "NCHW"
    """Data, kernel and output layout and data type; equal for all members of a merge."""

    @property
    def output_size(self) -> tuple[int, int]:
        """Height and width of the output."""
        _, height, width = self.input_shape
        top, left, bottom, right = self.padding
        extent_h = self.dilation[0] * (self.kernel[0] - 1) + 1
        extent_w = self.dilation[1] * (self.kernel[1] - 1) + 1
        return (
            (height + top + bottom - extent_h) // self.strides[0] + 1,
            (width + left + right - extent_w) // self.strides[1] + 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A schedulable unit of a graph: a fused primitive function."""

    name: str
    """Name, unique in its graph."""
    kind: str
    """Kind of operator, for people: ``conv2d``, ``max_pool2d``, ``concatenate`` …"""
    predecessors: tuple[int, ...]
    """Indices of the operators whose outputs this one reads: ascending, each once, all lower."""
    workload: str
    """Text of function body, shapes and types, without names; equal texts cost the same
    anywhere."""
    flops: int = 0
    memory_bytes: int = 0
    """Bytes read and written."""
    output_elements: int = 0
    """Number of elements written; 0 where unknown."""
    view: bool = False
    """True if it only moves whole pieces of memory, so a memory plan may need no kernel for it."""
    whole: bool = False
    """True if it multiplies whole numbers of one byte, as in quantised models."""
    convolution: Convolution | None = None
    schedulable: bool = True
    """False for a barrier: an operator the pass does not understand, in a stage of its own."""


@dataclass(frozen=True, slots=True)
class OperatorGraph:
    """A directed acyclic graph of operators, numbered in a topological order.

    Raises
    ------
    GraphError
        If a predecessor does not come before its operator, or a name occurs twice.
    """

    name: str
    operators: tuple[Operator, ...]

    def __post_init__(self) -> None:
        seen: dict[str, int] = {}
        for index, operator in enumerate(self.operators):
            if operator.name in seen:
                raise GraphError(
                    f"graph {self.name!r}: operators {seen[operator.name]} and {index} are both "
                    f"named {operator.name!r}; give every operator a name of its own"
                )
            seen[operator.name] = index
            expected = tuple(sorted(set(operator.predecessors)))
            if operator.predecessors != expected or any(
                not 0 <= p < index for p in operator.predecessors
            ):
                raise GraphError(
                    f"graph {self.name!r}: operator {index} ({operator.name!r}) has predecessors "
                    f"{operator.predecessors}; they must be ascending, unique, and smaller than "
                    f"{index}, so list the operators in a topological order"
                )

    def __len__(self) -> int:
        return len(self.operators)

    def predecessor_masks(self) -> list[int]:
        """Direct predecessors of every operator, as a bit mask each."""
        return [mask_of(operator.predecessors) for operator in self.operators]

    def successor_masks(self) -> list[int]:
        """Direct successors of every operator, as a bit mask each."""
        masks = [0] * len(self.operators)
        for index, operator in enumerate(self.operators):
            for predecessor in operator.predecessors:
                masks[predecessor] |= 1 << index
        return masks

    def fingerprint(self) -> str:
        """Digest of workloads and edges; names do not count."""
        rows = [[operator.workload, list(operator.predecessors)] for operator in self.operators]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]

    def as_text(self) -> str:
        """Text with a line for each operator: index, name, kind, predecessors, MFLOPs."""
        lines = [f"graph {self.name}: {len(self.operators)} operators"]
        for index, operator in enumerate(self.operators):
            reads = ", ".join(f"%{p}" for p in operator.predecessors)
            barrier = "" if operator.schedulable else "  # barrier"
            lines.append(
                f"  %{index} = {operator.name}({reads})  "
                f"{operator.kind}, {operator.flops / 1e6:.3f} MFLOP{barrier}"
            )
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A construct that cannot be scheduled, with its place."""

    where: str
    """Function or operator with the construct."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Share of a model that the search may schedule."""

    scheduled_operators: int
    total_operators: int
    scheduled_flops: int
    total_flops: int
    barriers: tuple[Obstacle, ...]
    """Operators that run in a stage of their own, or whatever keeps the whole model out."""

    @classmethod
    def of(cls, operators: Sequence[Operator], barriers: Iterable[Obstacle]) -> Coverage:
        """Coverage of a model with these operators, some of which cannot be scheduled."""
        scheduled = [operator for operator in operators if operator.schedulable]
        return cls(
            scheduled_operators=len(scheduled),
            total_operators=len(operators),
            scheduled_flops=sum(operator.flops for operator in scheduled),
            total_flops=sum(operator.flops for operator in operators),
            barriers=tuple(barriers),
        )

    def as_text(self) -> str:
        """Text: one line, then a line for each barrier."""
        share = self.scheduled_flops / self.total_flops if self.total_flops else 1.0
        if not self.scheduled_operators:
            share = 0.0
        counts = f"{self.scheduled_operators} of {self.total_operators} operators scheduled"
        lines = [f"{counts}, {share:.1%} of the floating-point operations"]
        lines += [f"  barrier {barrier.where}: {barrier.reason}" for barrier in self.barriers]
        return "\n".join(lines)


def mask_of(indices: Iterable[int]) -> int:
    """The bit mask with exactly these bits set."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


def bits_of(mask: int) -> tuple[int, ...]:
    """The set bits of a mask, ascending."""
    indices = []
    while mask:
        low = mask & -mask
        indices.append(low.bit_length() - 1)
        mask ^= low
    return tuple(indices)


def unique_names(kinds: Iterable[str]) -> list[str]:
    """Names such as ``conv2d_0`` and ``conv2d_1``: the kind, and its number within the kind."""
    seen: Counter[str] = Counter()
    names = []
    for kind in kinds:
        # Schedules join names by commas, bars, arrows and plus signs, so no name has any.
        stem = "".join(letter if letter.isalnum() else "_" for letter in kind)
        names.append(f"{stem}_{seen[stem]}")
        seen[stem] += 1
    return names
