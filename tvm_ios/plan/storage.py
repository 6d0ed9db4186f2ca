"""Storage of a plan: the bytes that each launch writes and reads, and their lifetimes. No TVM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from tvm_ios.core.graph import mask_of
from tvm_ios.errors import PlanError
from tvm_ios.plan.data_type import dtype_bytes
from tvm_ios.plan.kernel_graph import KernelGraph
from tvm_ios.plan.memory import Lifetime, pack_buffers
from tvm_ios.plan.placement import Placement
from tvm_ios.plan.plan import (
    Buffer,
    BufferKind,
    Tensor,
)
from tvm_ios.plan.views import Aliasing

__all__ = ["Access", "Layout", "Storage", "lay_out_groups", "one_after_another"]


@dataclass(frozen=True, slots=True, order=True)
class Access:
    """A launch that touches a buffer, with its stage and group."""

    stage: int
    group: int
    launch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Groups that still hold a launch, in (stage, position) order, and their launches."""

    keys: tuple[tuple[int, int], ...]
    """Stage and position of each group."""
    members: tuple[tuple[int, ...], ...]
    """Operators of each group."""
    lanes: tuple[int | None, ...]
    """Home lane of each group; None where lowering is to choose."""
    order: tuple[int, ...]
    """Operator of each launch."""
    access: dict[int, Access]
    """Launch, stage and group of each operator."""


def lay_out_groups(placements: Sequence[Placement], dropped: frozenset[int]) -> Layout:
    """Layout of the groups of placements, without operators that are never launched."""
    by_key: dict[tuple[int, int], list[int]] = {}
    for index, placement in enumerate(placements):
        if index not in dropped:
            by_key.setdefault((placement.stage, placement.group), []).append(index)
    keys = tuple(sorted(by_key))
    access: dict[int, Access] = {}
    for number, key in enumerate(keys):
        for index in by_key[key]:
            access[index] = Access(key[0], number, len(access))
    return Layout(
        keys=keys,
        members=tuple(tuple(by_key[key]) for key in keys),
        lanes=tuple(placements[by_key[key][0]].lane for key in keys),
        order=tuple(access),
        access=access,
    )


class Storage:
    """Buffers, and the bytes of them that each launch writes and reads."""

    def __init__(self, graph: KernelGraph, aliasing: Aliasing, layout: Layout) -> None:
        self._graph = graph
        self._location = aliasing.location
        self._layout = layout
        self._size = [math.prod(t.shape) * dtype_bytes(t.dtype) for t in graph.tensors]
        self._writes: dict[int, list[tuple[int, int, Access]]] = {}
        self._reads: dict[int, list[tuple[int, int, Access]]] = {}
        for index in layout.order:
            operator, access = graph.operators[index], layout.access[index]
            for tensors, table in (
                (operator.inputs, self._reads),
                (operator.outputs, self._writes),
            ):
                for tensor in tensors:
                    owner, begin = self._location[tensor]
                    row = (begin, begin + self._size[tensor], access)
                    table.setdefault(owner, []).append(row)
        external = {self._location[tensor][0] for _, tensor in graph.inputs}
        heads = {self._location[tensor][0] for tensor in graph.outputs}
        self._kinds = {
            owner: BufferKind.INPUT
            if owner in external
            else BufferKind.OUTPUT
            if owner in heads
            else BufferKind.ARENA
            for owner, _ in self._location
        }
        self.arena_owners = [
            owner for owner in sorted(self._kinds) if self._kinds[owner] is BufferKind.ARENA
        ]

    def _true_dependencies(self) -> list[tuple[Access, Access]]:
        return [
            (writer, reader)
            for owner, reads in self._reads.items()
            for begin, end, reader in reads
            for low, high, writer in self._writes.get(owner, ())
            if low < end and begin < high
        ]

    def check_order(self, names: Sequence[str]) -> None:
        """Refuse placements that run a reader before, or beside, its writer."""
        for writer, reader in self._true_dependencies():
            in_order = writer.stage < reader.stage or (
                writer.group == reader.group and writer.launch < reader.launch
            )
            if not in_order:
                order = self._layout.order
                raise PlanError(
                    f"operator {names[order[reader.launch]]!r} (stage {reader.stage}) reads what "
                    f"operator {names[order[writer.launch]]!r} (stage {writer.stage}) writes, but "
                    "is neither in a later stage nor later in the same group; "
                    "mend the schedule, verify_schedule names the rule"
                )

    def bytes_touched(self) -> list[int]:
        """Bytes that each launch reads or writes."""
        touched = [0] * len(self._layout.order)
        for table in (self._reads, self._writes):
            for accesses in table.values():
                for begin, end, access in accesses:
                    touched[access.launch] += end - begin
        return touched

    def bytes_read(self) -> list[dict[int, int]]:
        """Bytes that each launch reads of what each other launch writes."""
        read: list[dict[int, int]] = [{} for _ in self._layout.order]
        for owner, reads in self._reads.items():
            for begin, end, reader in reads:
                for low, high, writer in self._writes.get(owner, ()):
                    size = min(end, high) - max(begin, low)
                    if size > 0:
                        row = read[reader.launch]
                        row[writer.launch] = row.get(writer.launch, 0) + size
        return read

    def lifetimes(self, before: Sequence[int]) -> list[Lifetime]:
        """Lifetime of every buffer of the arena; ``before`` has the launches before each launch."""
        lifetimes = []
        for owner in self.arena_owners:
            writers = {access.launch for _, _, access in self._writes[owner]}
            readers = {access.launch for _, _, access in self._reads.get(owner, ())}
            lifetimes.append(
                Lifetime(
                    size_bytes=self._size[owner],
                    first_write=min(writers),
                    accesses=mask_of(writers | readers),
                    # Writers may run in any order: only what precedes each of them is over.
                    before=reduce(and_, (before[launch] for launch in writers)),
                )
            )
        return lifetimes

    def buffers(self, offsets: dict[int, int]) -> tuple[Buffer, ...]:
        """Buffers of the plan; offsets are those of arena owners, in bytes."""
        return tuple(
            Buffer(
                kind=self._kinds[owner],
                size_bytes=self._size[owner],
                arena_offset=offsets.get(owner),
            )
            for owner in sorted(self._kinds)
        )

    def tensors(self) -> tuple[tuple[Tensor, ...], dict[int, dict[int, int]]]:
        """Tensors of the plan, and for each operator the plan tensor of each graph tensor."""
        number = {owner: index for index, owner in enumerate(sorted(self._kinds))}
        tensors = [
            Tensor(buffer=number[owner], byte_offset=offset, shape=tensor.shape, dtype=tensor.dtype)
            for tensor, (owner, offset) in zip(self._graph.tensors, self._location, strict=True)
        ]
        arguments: dict[int, dict[int, int]] = {}
        for index in self._layout.order:
            operator = self._graph.operators[index]
            arguments[index] = {t: t for t in (*operator.inputs, *operator.outputs)}
            for tensor in arguments[index] if operator.flatten else ():
                flat = tensors[tensor]
                arguments[index][tensor] = len(tensors)
                tensors.append(
                    Tensor(
                        buffer=flat.buffer,
                        byte_offset=flat.byte_offset,
                        shape=(math.prod(flat.shape),),
                        dtype=flat.dtype,
                    )
                )
        return tuple(tensors), arguments


def one_after_another(lifetimes: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Byte offsets without any reuse, and the size of the arena."""
    offsets, cursor = [], 0
    for lifetime in lifetimes:
        offsets.append(cursor)
        cursor += pack_buffers([lifetime])[1]
    return offsets, cursor
