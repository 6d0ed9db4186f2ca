"""Parts that need each group and each input of a plan. No TVM here."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.core.parts import Part
from tvm_ios.plan.plan import ExecutionPlan, Group

__all__ = ["group_masks", "groups_of_parts", "input_masks"]


def group_masks(plan: ExecutionPlan) -> list[int]:
    """Number for each group with bit *i* set where outputs of part *i* need what it computes."""
    if not plan.parts:
        return [0] * len(plan.groups)
    writers: dict[int, list[tuple[range, int]]] = {}
    for number, launch in enumerate(plan.launches):
        for tensor in launch.outputs:
            writers.setdefault(plan.tensors[tensor].buffer, []).append(
                (_bytes_of(plan, tensor), number)
            )
    needed = [
        _needed(plan, writers, [plan.outputs[number] for number in part.outputs])
        for part in plan.parts
    ]
    return [
        sum(
            1 << place
            for place, launches in enumerate(needed)
            if not launches.isdisjoint(group.launches)
        )
        for group in plan.groups
    ]


def groups_of_parts(plan: ExecutionPlan, parts: int) -> tuple[Group, ...]:
    """Groups that some parts need, by their bits, in order; all groups where ``parts`` is 0."""
    if not parts:
        return plan.groups
    masks = group_masks(plan)
    return tuple(group for group, mask in zip(plan.groups, masks, strict=True) if mask & parts)


def input_masks(plan: ExecutionPlan) -> list[int]:
    """Number for each input with bit *i* set where part *i* reads it; 0 for parameters."""
    return [_mask_of(plan.parts, entry.name) for entry in plan.inputs]


def _mask_of(parts: Sequence[Part], name: str) -> int:
    return sum(1 << place for place, part in enumerate(parts) if name in part.inputs)


def _needed(
    plan: ExecutionPlan,
    writers: dict[int, list[tuple[range, int]]],
    outputs: Sequence[int],
) -> set[int]:
    """Launches that tensors depend on."""
    left, launches = list(outputs), set[int]()
    while left:
        tensor = left.pop()
        read = _bytes_of(plan, tensor)
        for written, launch in writers.get(plan.tensors[tensor].buffer, ()):
            overlaps = written.start < read.stop and read.start < written.stop
            if overlaps and launch not in launches:
                launches.add(launch)
                left += plan.launches[launch].inputs
    return launches


def _bytes_of(plan: ExecutionPlan, tensor: int) -> range:
    """Bytes of its buffer that a tensor covers."""
    begin = plan.tensors[tensor].byte_offset
    return range(begin, begin + plan.tensors[tensor].size_bytes)
