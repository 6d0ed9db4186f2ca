"""The execution plan: the immutable data that lowering gives an executor. No TVM here.

A plan holds launches (operators that still need a kernel), groups of launches that one lane runs in
order, the groups each group waits for, and where every tensor lies. Groups are sorted by stage, and
a group waits only for groups before it, so the order of the launches is a topological one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tvm_ios.core.fused_function import TensorType
from tvm_ios.core.parts import Part
from tvm_ios.plan.data_type import dtype_bytes
from tvm_ios.plan.library_call import LibraryCall

__all__ = [
    "ALIGNMENT_BYTES",
    "Buffer",
    "BufferKind",
    "ExecutionPlan",
    "Group",
    "Launch",
    "PlanInput",
    "Tensor",
    "launches_before",
]

ALIGNMENT_BYTES = 64
"""Alignment of every tensor in bytes, which generated kernels assume."""


class BufferKind(Enum):
    """Owner of the bytes of a buffer."""

    ARENA = "arena"
    """Planned memory, shared over time."""
    INPUT = "input"
    """Network input or parameter, which no launch writes."""
    OUTPUT = "output"
    """Network output in memory of its own, valid until the next run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """Bytes that are allocated together."""

    kind: BufferKind
    size_bytes: int
    arena_offset: int | None = None
    """Byte at which the buffer begins in the arena; None outside the arena."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A compact tensor inside a buffer; tensors of one buffer may alias on purpose (views)."""

    buffer: int
    byte_offset: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def type(self) -> TensorType:
        """Shape and data type of the tensor."""
        return TensorType(self.shape, self.dtype)

    @property
    def size_bytes(self) -> int:
        """Bytes from the first to the last element."""
        return math.prod(self.shape) * dtype_bytes(self.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A call of a kernel, or of an operator library in its place."""

    operator: str
    operator_index: int
    """Position among the ``tvm_op`` nodes of the graph JSON, hence in the operator graph."""
    kernel: str
    """Symbol in the kernel library."""
    inputs: tuple[int, ...]
    """Tensors read, in argument order."""
    outputs: tuple[int, ...]
    """Tensors written, in argument order after the inputs."""
    split: bool = True
    """True lets idle lanes help with its parallel regions."""
    split_alone: bool = True
    """Likewise in runs of some parts of a joined network, in which lanes have less to do."""
    call: LibraryCall | None = None
    """Call of an operator library that computes it in place of the kernel."""

    @property
    def computed_by(self) -> str:
        """Computing side in words: ``kernel`` and its symbol, or ``by`` and an operator library."""
        return f"kernel {self.kernel}" if self.call is None else f"by {self.call.library.title}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Launches that one lane runs one after another."""

    stage: int
    position: int
    """Position of the group in its stage."""
    launches: tuple[int, ...]
    dependencies: tuple[int, ...]
    """Groups that must be complete first, ascending, transitively reduced."""
    lane: int = 0
    """Home lane (or stream): it takes the group first, any other lane may when idle."""


def launches_before(groups: Sequence[Group]) -> list[int]:
    """Bit mask for each launch: the launches that are complete before it starts.

    Each group waits only for groups before it, and the launches ascend from 0, as in every plan.
    """
    before: list[int] = []
    through: list[int] = []  # by group: everything complete once it is
    for group in groups:
        mask = 0
        for dependency in group.dependencies:
            mask |= through[dependency]
        for launch in group.launches:
            before.append(mask)
            mask |= 1 << launch
        through.append(mask)
    return before


@dataclass(frozen=True, slots=True)
class PlanInput:
    """A named network input or parameter."""

    name: str
    tensor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPlan:
    """Launches, groups, tensors and buffers; checked by :func:`tvm_ios.plan.verify.verify_plan`."""

    lanes: int
    buffers: tuple[Buffer, ...]
    tensors: tuple[Tensor, ...]
    launches: tuple[Launch, ...]
    groups: tuple[Group, ...]
    inputs: tuple[PlanInput, ...]
    """Inputs and parameters in the order of the graph JSON's ``arg_nodes``."""
    outputs: tuple[int, ...]
    """Output tensors, in the order of the graph JSON's ``heads``."""
    arena_bytes: int
    parts: tuple[Part, ...] = ()
    """Models that the network was joined from; none for a single model."""

    @property
    def is_of_shapes(self) -> bool:
        """True if its parts are one model in several shapes, of which one runs at a time."""
        return any(part.shapes for part in self.parts)

    @property
    def num_stages(self) -> int:
        """Number of stages that still hold a launch."""
        return len({group.stage for group in self.groups})

    def as_text(self) -> str:
        """Text with a line for each launch, by stage and group, with the places of its outputs."""
        lines = [
            f"plan: {len(self.launches)} launches in {len(self.groups)} groups and "
            f"{self.num_stages} stages on {self.lanes} lanes, arena {self.arena_bytes} bytes"
        ]
        lines += [
            f"  input {entry.name} = {self._tensor_text(entry.tensor)}" for entry in self.inputs
        ]
        for number, group in enumerate(self.groups):
            after = ", ".join(map(str, group.dependencies)) or "nothing"
            lines.append(
                f"  group {number} (stage {group.stage}, position {group.position}, "
                f"lane {group.lane}) after {after}"
            )
            for index in group.launches:
                launch = self.launches[index]
                reads = ", ".join(f"t{t}" for t in launch.inputs)
                writes = ", ".join(self._tensor_text(t) for t in launch.outputs)
                by = "" if launch.call is None else f" {launch.computed_by}"
                lines.append(f"    {launch.operator}({reads}) -> {writes}{by}")
        lines += [f"  output {self._tensor_text(tensor)}" for tensor in self.outputs]
        return "\n".join(lines)

    def _tensor_text(self, index: int) -> str:
        tensor = self.tensors[index]
        buffer = self.buffers[tensor.buffer]
        base = buffer.kind.value
        if buffer.arena_offset is not None:
            base += f"+{buffer.arena_offset}"
        shape = "x".join(map(str, tensor.shape)) or "scalar"
        return f"t{index} {tensor.dtype}[{shape}] at b{tensor.buffer}({base})+{tensor.byte_offset}"
