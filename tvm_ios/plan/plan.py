"""The execution plan: the immutable data that lowering gives an executor. No TVM here.

A plan holds launches (operators that still need a kernel), groups of launches that one lane runs in
order, the groups each group waits for, and where every tensor lies. Groups are sorted by stage, and
a group waits only for groups before it, so the order of the launches is a topological one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tvm_ios.core.fused_function import TensorType
from tvm_ios.errors import PlanError
from tvm_ios.plan.data_type import dtype_bytes, named_as_arrays
from tvm_ios.plan.library_call import CallReader, LibraryCall, no_calls
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError, parse_json

__all__ = [
    "ALIGNMENT_BYTES",
    "PLAN_VERSION",
    "Buffer",
    "BufferKind",
    "ExecutionPlan",
    "Group",
    "Launch",
    "PlanInput",
    "Tensor",
    "launches_before",
]

PLAN_VERSION = 3
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

    @property
    def num_stages(self) -> int:
        """Number of stages that still hold a launch."""
        return len({group.stage for group in self.groups})

    def to_json(self) -> str:
        """Versioned JSON of the plan; :meth:`from_json` reads it back."""
        return json.dumps(
            {
                "version": PLAN_VERSION,
                "lanes": self.lanes,
                "arena_bytes": self.arena_bytes,
                "buffers": [[b.kind.value, b.size_bytes, b.arena_offset] for b in self.buffers],
                "tensors": [
                    [t.buffer, t.byte_offset, list(t.shape), t.dtype] for t in self.tensors
                ],
                "launches": [
                    [
                        a.operator,
                        a.operator_index,
                        a.kernel,
                        list(a.inputs),
                        list(a.outputs),
                        a.split,
                        None if a.call is None else a.call.to_data(),
                    ]
                    for a in self.launches
                ],
                "groups": [
                    [g.stage, g.position, list(g.launches), list(g.dependencies), g.lane]
                    for g in self.groups
                ],
                "inputs": [[entry.name, entry.tensor] for entry in self.inputs],
                "outputs": list(self.outputs),
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str, *, read_call: CallReader = no_calls) -> ExecutionPlan:
        """Plan in the JSON of :meth:`to_json`, not verified yet.

        Without ``read_call`` a plan that has calls of operator libraries is refused.
        """
        try:
            data = parse_json(text, "the plan")
            version = data.field("version").whole()
            if version != PLAN_VERSION:
                raise PlanError(
                    f"execution plan has version {version!r}, this tvm-ios reads version "
                    f"{PLAN_VERSION}; export the model again with the installed version"
                )
            return cls(
                lanes=data.field("lanes").whole(),
                arena_bytes=data.field("arena_bytes").whole(),
                buffers=tuple(map(_buffer, data.field("buffers").rows())),
                tensors=tuple(map(_tensor, data.field("tensors").rows())),
                launches=tuple(_launch(row, read_call) for row in data.field("launches").rows()),
                groups=tuple(map(_group, data.field("groups").rows())),
                inputs=tuple(map(_input, data.field("inputs").rows())),
                outputs=data.field("outputs").wholes(),
            )
        except UnreadableValueError as error:
            raise PlanError(
                f"not an execution plan: {error}; expected the JSON that ExecutionPlan.to_json "
                "writes"
            ) from error

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


def _buffer(row: StoredValue) -> Buffer:
    kind, size, offset = row.rows(3)
    return Buffer(
        kind=kind.member(BufferKind),
        size_bytes=size.whole(),
        arena_offset=offset.or_none(StoredValue.whole),
    )


def _tensor(row: StoredValue) -> Tensor:
    buffer, offset, shape, dtype = row.rows(4)
    return Tensor(
        buffer=buffer.whole(),
        byte_offset=offset.whole(),
        shape=shape.wholes(),
        dtype=named_as_arrays(dtype.text()),
    )


def _launch(row: StoredValue, read_call: CallReader) -> Launch:
    operator, index, kernel, inputs, outputs, split, call = row.rows(7)
    return Launch(
        operator=operator.text(),
        operator_index=index.whole(),
        kernel=kernel.text(),
        inputs=inputs.wholes(),
        outputs=outputs.wholes(),
        split=split.flag(),
        call=call.or_none(read_call),
    )


def _group(row: StoredValue) -> Group:
    stage, position, launches, dependencies, lane = row.rows(5)
    return Group(
        stage=stage.whole(),
        position=position.whole(),
        launches=launches.wholes(),
        dependencies=dependencies.wholes(),
        lane=lane.whole(),
    )


def _input(row: StoredValue) -> PlanInput:
    name, tensor = row.rows(2)
    return PlanInput(name.text(), tensor.whole())
