"""Parts that need each launch, group and input of a plan. No TVM here."""

from __future__ import annotations

from tvm_ios.core.parts import Part
from tvm_ios.plan.plan import ExecutionPlan, Group, PlanInput

__all__ = [
    "group_masks",
    "groups_of_parts",
    "input_masks",
    "launch_masks",
    "launches_of_parts",
    "launches_read",
]


def launches_read(plan: ExecutionPlan) -> list[set[int]]:
    """Launches that write what each launch reads, and after these those of each output."""
    writers: dict[int, list[tuple[range, int]]] = {}
    for number, launch in enumerate(plan.launches):
        for tensor in launch.outputs:
            row = (_bytes_of(plan, tensor), number)
            writers.setdefault(plan.tensors[tensor].buffer, []).append(row)
    reads = [*(launch.inputs for launch in plan.launches), *((each,) for each in plan.outputs)]
    return [
        {
            number
            for tensor in tensors
            for written, number in writers.get(plan.tensors[tensor].buffer, ())
            if _overlap(written, _bytes_of(plan, tensor))
        }
        for tensors in reads
    ]


def launch_masks(plan: ExecutionPlan) -> list[int]:
    """Number for each launch with bit *i* set where outputs of part *i* need what it computes."""
    masks = [0] * len(plan.launches)
    if not plan.parts:
        return masks
    reads = launches_read(plan)
    for place, part in enumerate(plan.parts):
        for number in part.outputs:
            for launch in reads[len(plan.launches) + number]:
                masks[launch] |= 1 << place
    # A launch reads of those before it only.
    for launch in reversed(range(len(plan.launches))):
        for writer in reads[launch]:
            masks[writer] |= masks[launch]
    return masks


def launches_of_parts(plan: ExecutionPlan) -> dict[str, list[int]]:
    """Launches that outputs of each part need, ascending, by its name."""
    masks = launch_masks(plan)
    return {
        part.name: [number for number, mask in enumerate(masks) if mask >> place & 1]
        for place, part in enumerate(plan.parts)
    }


def group_masks(plan: ExecutionPlan) -> list[int]:
    """Number for each group with bit *i* set where part *i* needs some launch of it."""
    masks, groups = launch_masks(plan), []
    for group in plan.groups:
        mask = 0
        for launch in group.launches:
            mask |= masks[launch]
        groups.append(mask)
    return groups


def groups_of_parts(plan: ExecutionPlan, parts: int) -> tuple[Group, ...]:
    """Groups that some parts need, by their bits, in order; all groups where ``parts`` is 0."""
    if not parts:
        return plan.groups
    masks = group_masks(plan)
    return tuple(group for group, mask in zip(plan.groups, masks, strict=True) if mask & parts)


def input_masks(plan: ExecutionPlan) -> list[int]:
    """Number for each input with bit *i* set where part *i* reads it; 0 for parameters."""
    return [
        sum(1 << place for place, part in enumerate(plan.parts) if _reads(plan, part, entry))
        for entry in plan.inputs
    ]


def _reads(plan: ExecutionPlan, part: Part, entry: PlanInput) -> bool:
    """True if a part reads an input. Inputs of one model in several shapes share names."""
    if not part.shapes:
        return entry.name in part.inputs
    wanted = (entry.name, plan.tensors[entry.tensor].shape)
    return wanted in zip(part.inputs, part.shapes, strict=True)


def _bytes_of(plan: ExecutionPlan, tensor: int) -> range:
    """Bytes of its buffer that a tensor covers."""
    begin = plan.tensors[tensor].byte_offset
    return range(begin, begin + plan.tensors[tensor].size_bytes)


def _overlap(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop
