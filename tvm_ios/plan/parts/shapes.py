"""Plans of one model in several shapes as one plan, of which one shape runs at a time. No TVM here.

Each shape is a part with launches and groups of its own. Parameters of equal values are one input,
and so are inputs of equal name and type. All shapes share the arena.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tvm_ios.core.fused_function import TensorType
from tvm_ios.core.parts import Part
from tvm_ios.plan.parts.masks import group_masks, input_masks
from tvm_ios.plan.plan import Buffer, ExecutionPlan, Group, Launch, PlanInput, Tensor

__all__ = ["joined_shapes", "shape_alone"]


def joined_shapes(
    plans: Mapping[str, ExecutionPlan], parameters: Sequence[Mapping[str, str]]
) -> ExecutionPlan:
    """Plan that has the plan of each shape, by its name, as a part.

    ``parameters`` are, for each plan, the names that its parameters have in the joined plan, by
    their names in their own; those of equal names have equal values.
    """
    joined = _Joined()
    for (name, plan), named in zip(plans.items(), parameters, strict=True):
        joined.add(name, plan, named)
    return ExecutionPlan(
        lanes=max(plan.lanes for plan in plans.values()),
        arena_bytes=max(plan.arena_bytes for plan in plans.values()),
        buffers=tuple(joined.buffers),
        tensors=tuple(joined.tensors),
        launches=tuple(joined.launches),
        groups=tuple(joined.groups),
        inputs=tuple(sorted(joined.inputs, key=joined.place_of)),
        outputs=tuple(joined.outputs),
        parts=tuple(joined.parts),
    )


def shape_alone(plan: ExecutionPlan, place: int) -> ExecutionPlan:
    """Plan of one shape of a joined plan; its buffers and tensors have the numbers of that."""
    part, own = plan.parts[place], 1 << place
    waits: list[set[int]] = []  # for each group: those of the shape that are complete once it is
    launches: dict[int, int] = {}
    groups: list[Group] = []
    for group, mask in zip(plan.groups, group_masks(plan), strict=True):
        dependencies = set().union(*(waits[each] for each in group.dependencies))
        if not mask & own:
            waits.append(dependencies)
            continue
        waits.append({len(groups)})
        for launch in group.launches:
            launches[launch] = len(launches)
        groups.append(
            replace(
                group,
                launches=tuple(launches[launch] for launch in group.launches),
                dependencies=tuple(sorted(dependencies)),
            )
        )
    return replace(
        plan,
        launches=tuple(plan.launches[launch] for launch in launches),
        groups=tuple(groups),
        # Parameters are inputs of no shape, and all have them.
        inputs=tuple(
            entry
            for entry, mask in zip(plan.inputs, input_masks(plan), strict=True)
            if mask & own or not mask
        ),
        outputs=tuple(plan.outputs[number] for number in part.outputs),
        parts=(),
    )


@dataclass(slots=True)
class _Joined:
    """Rows of a joined plan, to which plans are added."""

    buffers: list[Buffer] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    inputs: list[PlanInput] = field(default_factory=list)
    """Inputs and parameters, those of equal name and type once."""
    places: dict[tuple[str, TensorType], int] = field(default_factory=dict)
    """Buffer of each of them."""

    def place_of(self, entry: PlanInput) -> int:
        """Place of an input among those of the first shape; behind them for parameters.

        So inputs have the same numbers in all shapes.
        """
        names = self.parts[0].inputs if self.parts else ()
        return names.index(entry.name) if entry.name in names else len(names)

    def add(self, name: str, plan: ExecutionPlan, parameters: Mapping[str, str]) -> None:
        tensor, launch, group = len(self.tensors), len(self.launches), len(self.groups)
        places = self._add_inputs(plan, parameters)
        for number, buffer in enumerate(plan.buffers):
            if number not in places:
                places[number] = len(self.buffers)
                self.buffers.append(buffer)
        self.tensors += (replace(each, buffer=places[each.buffer]) for each in plan.tensors)
        self.launches += (
            replace(
                each,
                inputs=tuple(tensor + number for number in each.inputs),
                outputs=tuple(tensor + number for number in each.outputs),
                split_alone=each.split,
            )
            for each in plan.launches
        )
        self.groups += (
            replace(
                each,
                launches=tuple(launch + number for number in each.launches),
                dependencies=tuple(group + number for number in each.dependencies),
            )
            for each in plan.groups
        )
        begin = len(self.outputs)
        self.outputs += (tensor + number for number in plan.outputs)
        own = sorted(
            (each for each in plan.inputs if each.name not in parameters), key=self.place_of
        )
        self.parts.append(
            Part(
                name=name,
                inputs=tuple(each.name for each in own),
                outputs=tuple(range(begin, len(self.outputs))),
                shapes=tuple(plan.tensors[each.tensor].shape for each in own),
            )
        )

    def _add_inputs(self, plan: ExecutionPlan, parameters: Mapping[str, str]) -> dict[int, int]:
        """Number of each input's buffer in the joined plan, by that in its own."""
        places = {}
        for entry in plan.inputs:
            tensor = plan.tensors[entry.tensor]
            name = parameters.get(entry.name, entry.name)
            key = (name, tensor.type)
            if key not in self.places:
                self.places[key] = len(self.buffers)
                self.buffers.append(plan.buffers[tensor.buffer])
                self.inputs.append(PlanInput(name, len(self.tensors) + entry.tensor))
            places[tensor.buffer] = self.places[key]
        return places
