"""Checkers of operator graphs and schedules; every noun is verified where it is made or loaded."""

from __future__ import annotations

from tvm_ios.core.graph import Convolution, OperatorGraph, mask_of
from tvm_ios.core.merge_rule import why_not_merge
from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
from tvm_ios.errors import GraphError, ScheduleError

__all__ = ["verify_graph", "verify_schedule"]


def verify_graph(graph: OperatorGraph) -> None:
    """Check the rules of a graph that its constructors cannot check.

    Names are not empty. FLOPs and bytes are not negative. A convolution has positive shapes,
    strides, dilation and groups, paddings that are not negative, a kernel that fits its padded
    input, and channels that its groups divide.

    Raises
    ------
    GraphError
        At the first rule broken, naming the operator, the field and the value.
    """
    for index, operator in enumerate(graph.operators):
        where = f"graph {graph.name!r}: operator {index} ({operator.name!r})"
        if not operator.name:
            raise GraphError(f"{where} has no name; give every operator a name of its own")
        for field in ("flops", "memory_bytes"):
            value = getattr(operator, field)
            if value < 0:
                raise GraphError(f"{where} has {field} {value}; it cannot be negative")
        if operator.convolution is not None:
            reason = _why_ill_formed(operator.convolution)
            if reason:
                raise GraphError(f"{where} holds an ill-formed convolution: {reason}")


def verify_schedule(
    schedule: InterOpSchedule,
    graph: OperatorGraph,
    *,
    max_group_size: int = 0,
    max_num_groups: int = 0,
    pad_merged_kernels: bool = True,
) -> None:
    """Check that a schedule computes its graph.

    1. Made for the graph: fingerprint and operator names are the graph's.
    2. Every operator is in exactly one group of exactly one stage; no stage or group is empty.
    3. Every operator comes after its predecessors: in an earlier stage, or earlier in its group.
    4. The groups of a stage are independent: no edge runs between them.
    5. A concurrent stage keeps the limits; 0 means no limit.
    6. A merge stage has one operator a group, two groups or more, and its convolutions may merge;
    without ``pad_merged_kernels`` their kernels are of one size.
    7. A barrier is alone in its stage.
    8. Every operator that is marked as unsplit, or for a library, is one of the graph, once, and
       none is marked for two libraries; operator times are absent, or one for each operator.
    9. Home lanes are absent, or one for each operator; then a stage has one group, or is a merge
       with all operators on one lane.

    Raises
    ------
    ScheduleError
        At the first rule broken, naming the stage, the group, the operator and the rule.
    """
    _require_same_graph(schedule, graph)
    _require_each_once(schedule, graph)
    predecessors = graph.predecessor_masks()
    done = 0
    for number, stage in enumerate(schedule.stages):
        _require_order(graph, number, stage, predecessors, done)
        _require_independent(graph, number, stage)
        if stage.strategy is Strategy.MERGE:
            _require_mergeable(graph, number, stage, pad_merged_kernels)
        else:
            _require_limits(graph, number, stage, max_group_size, max_num_groups)
        _require_barriers_alone(graph, number, stage)
        done |= mask_of(stage.operators)
    if schedule.operator_ns and len(schedule.operator_ns) != len(graph):
        raise ScheduleError(
            f"schedule for graph {schedule.graph_name!r} breaks rule 8 (a cost for each operator): "
            f"operator_ns has {len(schedule.operator_ns)} entries for {len(graph)} operators; "
            "leave it empty or measure again"
        )
    _require_home_lanes(schedule, graph)
    rows = schedule.libraries or ()
    for field, indices in (
        ("unsplit", schedule.unsplit),
        *((row.library, row.operators) for row in rows),
    ):
        if indices != tuple(sorted(set(indices) & set(range(len(graph))))):
            raise ScheduleError(
                f"schedule for graph {schedule.graph_name!r} breaks rule 8 ({field} operators "
                f"exist): {field} is {indices}; list operators 0 to {len(graph) - 1}, ascending"
            )
    owner: dict[int, str] = {}
    for row in rows:
        for index in row.operators:
            if owner.setdefault(index, row.library) != row.library:
                raise ScheduleError(
                    f"schedule for graph {schedule.graph_name!r} breaks rule 8 (one library an "
                    f"operator): {owner[index]} and {row.library} are both to compute operator "
                    f"{_operator(graph, index)}; leave it to one of them"
                )


def _require_same_graph(schedule: InterOpSchedule, graph: OperatorGraph) -> None:
    schedule.require_graph(graph)
    names = tuple(operator.name for operator in graph.operators)
    if schedule.operator_names != names:
        raise ScheduleError(
            f"schedule for graph {schedule.graph_name!r} breaks rule 1 (made for the graph): its "
            f"{len(schedule.operator_names)} operator names are not those of graph "
            f"{graph.name!r}; search again for this graph"
        )


def _require_each_once(schedule: InterOpSchedule, graph: OperatorGraph) -> None:
    seen: dict[int, str] = {}
    for number, stage in enumerate(schedule.stages):
        if not stage.groups:
            raise ScheduleError(
                f"stage {number} breaks rule 2 (each operator once): it has no groups; remove it"
            )
        for position, group in enumerate(stage.groups):
            where = f"stage {number}, group {position}"
            if not group:
                raise ScheduleError(
                    f"{where} breaks rule 2 (each operator once): the group is empty; remove it"
                )
            for index in group:
                if not 0 <= index < len(graph):
                    raise ScheduleError(
                        f"{where} breaks rule 2 (each operator once): operator {index} does not "
                        f"exist, the graph has {len(graph)}"
                    )
                if index in seen:
                    raise ScheduleError(
                        f"{where} breaks rule 2 (each operator once): operator "
                        f"{_operator(graph, index)} is also in {seen[index]}"
                    )
                seen[index] = where
    missing = [index for index in range(len(graph)) if index not in seen]
    if missing:
        raise ScheduleError(
            f"the schedule breaks rule 2 (each operator once): {len(missing)} operators are in no "
            f"stage, the first is {_operator(graph, missing[0])}"
        )


def _require_order(
    graph: OperatorGraph, number: int, stage: Stage, predecessors: list[int], done: int
) -> None:
    members = mask_of(stage.operators)
    for position, group in enumerate(stage.groups):
        before = 0
        for index in group:
            late = predecessors[index] & ~done & ~before
            # Edges between the groups of a stage are the business of rule 4.
            late &= ~(members & ~mask_of(group))
            if late:
                raise ScheduleError(
                    f"stage {number}, group {position} breaks rule 3 (order): operator "
                    f"{_operator(graph, index)} runs before its predecessor "
                    f"{_operator(graph, (late & -late).bit_length() - 1)}"
                )
            before |= 1 << index


def _require_independent(graph: OperatorGraph, number: int, stage: Stage) -> None:
    owner = {index: position for position, group in enumerate(stage.groups) for index in group}
    for head, position in owner.items():
        for tail in graph.operators[head].predecessors:
            if owner.get(tail, position) != position:
                raise ScheduleError(
                    f"stage {number}, group {owner[tail]} breaks rule 4 (independent groups): "
                    f"operator {_operator(graph, tail)} feeds operator {_operator(graph, head)} "
                    f"in group {position}"
                )


def _require_limits(
    graph: OperatorGraph, number: int, stage: Stage, max_group_size: int, max_num_groups: int
) -> None:
    if max_num_groups and len(stage.groups) > max_num_groups:
        raise ScheduleError(
            f"stage {number} breaks rule 5 (limits): it has {len(stage.groups)} groups, "
            f"max_num_groups is {max_num_groups}"
        )
    for position, group in enumerate(stage.groups):
        if max_group_size and len(group) > max_group_size:
            raise ScheduleError(
                f"stage {number}, group {position} breaks rule 5 (limits): it has {len(group)} "
                f"operators from {_operator(graph, group[0])} on, max_group_size is "
                f"{max_group_size}"
            )


def _require_mergeable(
    graph: OperatorGraph, number: int, stage: Stage, pad_merged_kernels: bool
) -> None:
    for position, group in enumerate(stage.groups):
        if len(group) != 1:
            raise ScheduleError(
                f"stage {number}, group {position} breaks rule 6 (merge): a merge stage has one "
                f"operator a group, this one has {len(group)} from {_operator(graph, group[0])} on"
            )
    indices = [group[0] for group in stage.groups]
    reason = why_not_merge(
        [graph.operators[index].convolution for index in indices], pad_kernels=pad_merged_kernels
    )
    if reason:
        members = ", ".join(_operator(graph, index) for index in indices)
        raise ScheduleError(
            f"stage {number} breaks rule 6 (merge): {reason}; the members are {members}"
        )


def _require_barriers_alone(graph: OperatorGraph, number: int, stage: Stage) -> None:
    operators = stage.operators
    for position, group in enumerate(stage.groups):
        for index in group:
            if not graph.operators[index].schedulable and len(operators) > 1:
                raise ScheduleError(
                    f"stage {number}, group {position} breaks rule 7 (barriers): operator "
                    f"{_operator(graph, index)} is a barrier and shares its stage with "
                    f"{len(operators) - 1} operators"
                )


def _require_home_lanes(schedule: InterOpSchedule, graph: OperatorGraph) -> None:
    homes = schedule.home_lanes
    if not homes:
        return
    if len(homes) != len(graph) or min(homes) < 0:
        raise ScheduleError(
            f"schedule for graph {schedule.graph_name!r} breaks rule 9 (home lanes): home_lanes "
            f"has {len(homes)} entries from {min(homes)} on for {len(graph)} operators; give each "
            "operator a lane of 0 or more, or leave it empty"
        )
    for number, stage in enumerate(schedule.stages):
        lanes = sorted({homes[index] for index in stage.operators})
        if len(lanes) > 1 or not (stage.is_merge or len(stage.groups) == 1):
            raise ScheduleError(
                f"stage {number} breaks rule 9 (home lanes): it has {len(stage.groups)} groups on "
                f"lanes {lanes}; with home lanes a stage is one group, or a merge, on one lane"
            )


def _operator(graph: OperatorGraph, index: int) -> str:
    return f"{index} ({graph.operators[index].name!r})"


def _why_ill_formed(convolution: Convolution) -> str | None:
    for field in ("input_shape", "kernel", "strides", "dilation"):
        values = getattr(convolution, field)
        if any(value < 1 for value in values):
            return f"{field} is {values}; every number must be 1 or more"
    for field in ("out_channels", "groups"):
        if getattr(convolution, field) < 1:
            return f"{field} is {getattr(convolution, field)}; it must be 1 or more"
    if any(value < 0 for value in convolution.padding):
        return f"padding is {convolution.padding}; no number may be negative"
    if any(size < 1 for size in convolution.output_size):
        return (
            f"kernel {convolution.kernel} does not fit input {convolution.input_shape} with "
            f"padding {convolution.padding}"
        )
    if convolution.input_shape[0] % convolution.groups:
        return f"groups is {convolution.groups}; it must divide {convolution.input_shape[0]}"
    if convolution.out_channels % convolution.groups:
        return f"groups is {convolution.groups}; it must divide {convolution.out_channels}"
    return None
