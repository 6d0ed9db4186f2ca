"""Verifier of execution plans, which uses only their partial order. No TVM here."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass

from tvm_ios.core.graph import mask_of
from tvm_ios.errors import PlanError
from tvm_ios.plan.parts.shapes import shape_alone
from tvm_ios.plan.plan import (
    ALIGNMENT_BYTES,
    BufferKind,
    ExecutionPlan,
    launches_before,
)

__all__ = ["verify_plan"]


def verify_plan(plan: ExecutionPlan) -> None:
    """Prove that every order the dependencies allow computes the same.

    The rules, in the order they are checked:

    1. Every launch is in exactly one group, in order; groups ascend by (stage, position) and wait
       only for groups before them.
    2. Tensors lie inside their buffers, arena buffers inside the arena, all on aligned bytes;
       inputs and outputs do not lie in the arena.
    3. Within a buffer every byte has at most one writer, and none in an input buffer.
    4. All bytes that a launch reads, or that are an output, were written by launches before it.
    5. Buffers that share bytes of the arena are never alive together: every access to one comes
       before every write of the other.
    6. A call of an operator library has tensors of the shapes and types that it describes.

    Of one model in several shapes, each has to keep them alone: only one runs at a time.

    Takes time in launches x launches / 64 words for the closure, and in buffers x pieces of the
    arena for the last rule.
    """
    if plan.is_of_shapes:
        for place in range(len(plan.parts)):
            verify_plan(shape_alone(plan, place))
        return
    _check_structure(plan)
    _check_places(plan)
    before = launches_before(plan.groups)
    uses = _collect_uses(plan)
    _check_values(plan, uses, before)
    _check_sharing(plan, uses, before)
    _check_calls(plan)


@dataclass(frozen=True, slots=True)
class _Use:
    """A launch and the bytes of a buffer it touches."""

    begin: int
    end: int
    launch: int


@dataclass(frozen=True, slots=True)
class _BufferUses:
    writes: list[_Use]
    reads: list[_Use]


def _check_structure(plan: ExecutionPlan) -> None:
    listed = [launch for group in plan.groups for launch in group.launches]
    if listed != list(range(len(plan.launches))):
        raise PlanError(
            f"rule 1: groups list launches {listed[:20]}..., but there are {len(plan.launches)} "
            "and each must be in one group, in order; lower the module again"
        )
    for number, group in enumerate(plan.groups):
        if not group.launches:
            raise PlanError(f"rule 1: group {number} has no launch; lower the module again")
        if any(not 0 <= dependency < number for dependency in group.dependencies):
            raise PlanError(
                f"rule 1: group {number} waits for groups {group.dependencies}; it may only wait "
                "for groups before it; lower the module again"
            )
        if number and _key(plan, number - 1) > _key(plan, number):
            raise PlanError(
                f"rule 1: group {number} is at (stage, position) {_key(plan, number)}, before "
                f"{_key(plan, number - 1)} of the group before it; lower the module again"
            )


def _key(plan: ExecutionPlan, group: int) -> tuple[int, int]:
    return plan.groups[group].stage, plan.groups[group].position


def _check_places(plan: ExecutionPlan) -> None:
    for number, buffer in enumerate(plan.buffers):
        offset = buffer.arena_offset
        if (offset is None) == (buffer.kind is BufferKind.ARENA):
            raise PlanError(
                f"rule 2: buffer {number} is of kind {buffer.kind.value} with arena offset "
                f"{offset}; exactly the arena's buffers have one; lower the module again"
            )
        if offset is not None and not (
            0 <= offset <= plan.arena_bytes - buffer.size_bytes and offset % ALIGNMENT_BYTES == 0
        ):
            raise PlanError(
                f"rule 2: buffer {number} of {buffer.size_bytes} bytes at offset {offset} does not "
                f"lie aligned in the arena of {plan.arena_bytes} bytes; lower the module again"
            )
    used = {t for launch in plan.launches for t in (*launch.inputs, *launch.outputs)}
    used.update(plan.outputs, (entry.tensor for entry in plan.inputs))
    for number in sorted(used):
        if not 0 <= number < len(plan.tensors):
            raise PlanError(f"rule 2: there is no tensor {number}; lower the module again")
        tensor = plan.tensors[number]
        fits = 0 <= tensor.buffer < len(plan.buffers) and (
            0 <= tensor.byte_offset <= plan.buffers[tensor.buffer].size_bytes - tensor.size_bytes
        )
        if not fits or tensor.byte_offset % ALIGNMENT_BYTES:
            raise PlanError(
                f"rule 2: tensor {number} of {tensor.size_bytes} bytes at byte "
                f"{tensor.byte_offset} does not lie aligned in buffer {tensor.buffer}; "
                "lower the module again"
            )
    for name, ends, kinds in (
        ("input", [entry.tensor for entry in plan.inputs], {BufferKind.INPUT}),
        ("output", list(plan.outputs), {BufferKind.INPUT, BufferKind.OUTPUT}),
    ):
        for number in ends:
            if plan.buffers[plan.tensors[number].buffer].kind not in kinds:
                raise PlanError(
                    f"rule 2: {name} tensor {number} lies in the arena, where other tensors may "
                    "overwrite it; lower the module again"
                )


def _collect_uses(plan: ExecutionPlan) -> list[_BufferUses]:
    uses = [_BufferUses([], []) for _ in plan.buffers]
    for number, launch in enumerate(plan.launches):
        for tensor in map(plan.tensors.__getitem__, launch.inputs):
            begin, end = tensor.byte_offset, tensor.byte_offset + tensor.size_bytes
            uses[tensor.buffer].reads.append(_Use(begin, end, number))
        for tensor in map(plan.tensors.__getitem__, launch.outputs):
            begin, end = tensor.byte_offset, tensor.byte_offset + tensor.size_bytes
            uses[tensor.buffer].writes.append(_Use(begin, end, number))
    for entry in uses:
        entry.writes.sort(key=lambda use: (use.begin, use.end))
    return uses


def _check_values(plan: ExecutionPlan, uses: list[_BufferUses], before: list[int]) -> None:
    everything = (1 << len(plan.launches)) - 1
    for number, (buffer, entry) in enumerate(zip(plan.buffers, uses, strict=True)):
        if buffer.kind is BufferKind.INPUT:
            if entry.writes:
                name = plan.launches[entry.writes[0].launch].operator
                raise PlanError(
                    f"rule 3: operator {name!r} writes buffer {number}, which holds an input; "
                    "lower the module again"
                )
            continue
        for first, second in zip(entry.writes, entry.writes[1:], strict=False):
            if second.begin < first.end:
                raise PlanError(
                    f"rule 3: operators {plan.launches[first.launch].operator!r} and "
                    f"{plan.launches[second.launch].operator!r} write the same bytes of buffer "
                    f"{number}; lower the module again"
                )
        for read in entry.reads:
            _check_read(plan, entry, read, before[read.launch], f"buffer {number}")
    for index in plan.outputs:
        tensor = plan.tensors[index]
        if plan.buffers[tensor.buffer].kind is BufferKind.OUTPUT:
            whole = _Use(tensor.byte_offset, tensor.byte_offset + tensor.size_bytes, -1)
            _check_read(plan, uses[tensor.buffer], whole, everything, f"output tensor {index}")


def _check_read(
    plan: ExecutionPlan, entry: _BufferUses, read: _Use, before: int, where: str
) -> None:
    reader = plan.launches[read.launch].operator if read.launch >= 0 else "the caller"
    reached = read.begin
    for write in _overlapping(entry.writes, read):
        if write.begin > reached:
            break
        if not before >> write.launch & 1:
            raise PlanError(
                f"rule 4: {reader!r} reads {where} but does not wait for "
                f"{plan.launches[write.launch].operator!r}, which writes it; "
                "lower the module again"
            )
        reached = write.end
    if reached < read.end:
        raise PlanError(
            f"rule 4: {reader!r} reads bytes {reached} to {read.end} of {where}, which nobody "
            "writes; lower the module again"
        )


def _overlapping(writes: list[_Use], read: _Use) -> Iterator[_Use]:
    """Writes that overlap a read, ascending; they are sorted and disjoint."""
    # The write before that place begins earlier and may reach into the read.
    start = bisect.bisect_right(writes, read.begin, key=lambda use: use.begin)
    for write in writes[max(start - 1, 0) :]:
        if write.begin >= read.end:
            return
        if write.end > read.begin:
            yield write


def _check_sharing(plan: ExecutionPlan, uses: list[_BufferUses], before: list[int]) -> None:
    """Visit buffers by first write and ask, for each byte, only about its last owner.

    That is enough: if A ends before B starts and B ends before C starts, A ends before C starts.
    """
    touched, needed, order = {}, {}, []
    everything = (1 << len(plan.launches)) - 1
    for number, entry in enumerate(uses):
        if plan.buffers[number].kind is not BufferKind.ARENA or not (entry.writes or entry.reads):
            continue
        touched[number] = mask_of(use.launch for use in (*entry.writes, *entry.reads))
        common = everything
        for write in entry.writes:
            common &= before[write.launch]
        needed[number] = common
        order.append((min(write.launch for write in entry.writes), number))
    owners: list[tuple[int, int, int]] = []
    for _, number in sorted(order):
        begin = plan.buffers[number].arena_offset or 0
        end = begin + plan.buffers[number].size_bytes
        kept = []
        for low, high, owner in owners:
            if high <= begin or end <= low:
                kept.append((low, high, owner))
                continue
            late = touched[owner] & ~needed[number]
            if late:
                launch = plan.launches[late.bit_length() - 1].operator
                raise PlanError(
                    f"rule 5: buffers {owner} and {number} share bytes {max(low, begin)} to "
                    f"{min(high, end)} of the arena, but {launch!r} may still use buffer {owner} "
                    f"when buffer {number} is written; lower the module again"
                )
            if low < begin:
                kept.append((low, begin, owner))
            if end < high:
                kept.append((end, high, owner))
        owners = [*kept, (begin, end, number)]


def _check_calls(plan: ExecutionPlan) -> None:
    for launch in plan.launches:
        if launch.call is None:
            continue
        inputs, outputs = (
            [plan.tensors[tensor].type for tensor in tensors]
            for tensors in (launch.inputs, launch.outputs)
        )
        if not launch.call.descriptor.fits(inputs, outputs):
            raise PlanError(
                f"rule 6: the tensors of {launch.operator!r} are not those of its call of "
                f"{launch.call.library.title}, {launch.call.descriptor.as_text()}; "
                "lower the module again"
            )
