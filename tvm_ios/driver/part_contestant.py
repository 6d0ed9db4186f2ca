"""A contestant for joined networks: each part as a list of its own or in order, as is faster alone.

One list of all parts may gain in one what it loses in another, and then neither it nor sequential
order is good.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.plan_of import hand_over_of
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.partition import connected
from tvm_ios.core.parts import Part
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.plan.parts.masks import launch_masks
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.profile.find_schedules import ScheduledBuild
from tvm_ios.profile.last_race import Racer
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.prices import StagePrices
from tvm_ios.report.contestants import Contestant
from tvm_ios.runtime.cpu.part_times import least_ns_alone
from tvm_ios.search.list_schedule import list_schedule, mixed_list

__all__ = ["part_contestant"]

WORTH_A_LIST = 0.97
"""Time of a part as a list, over that in order, below which its list is taken."""
NEEDED_S = 2.0
"""Seconds that lists of small networks take to be found, loaded and timed part by part."""

_LOG = logging.getLogger(__name__)


def part_contestant(
    racers: Mapping[Contestant, Racer],
    main: ScheduledBuild,
    parts: Sequence[Part],
    call: MeasuringCall,
) -> dict[Contestant, Racer]:
    """List of a joined network in which each part is as it is faster alone.

    Empty where that is sequential order, where all parts have data in common, or without the time.
    """
    ordered, prices = racers.get(Contestant.SEQUENTIAL), main.prices
    if not parts or ordered is None or prices is None or not call.device.traits.idle_lanes_help:
        return {}
    components = connected(range(len(prices.graph)), prices.graph.predecessor_masks())
    if len(components) == 1 or call.lanes == 1 or not call.budget.allows(NEEDED_S):
        return {}
    listed = _lists_in_turn(prices, ordered.schedule, components, lanes=call.lanes)
    with call.stage("compare", call.to_profile):
        plan, in_order_ns = _timed(ordered.compiled(), parts)
        _, as_lists_ns = _timed(ordered.lower(listed), parts)
    wanted = {name for name, ns in as_lists_ns.items() if ns < WORTH_A_LIST * in_order_ns[name]}
    _LOG.info("faster alone as a list: %s", ", ".join(sorted(wanted)) or "no part")
    chosen = _operators_of(plan, wanted, prices.graph, components)
    schedule = mixed_list(listed, ordered.schedule, chosen) if chosen else None
    if schedule is None:
        return {}
    return {Contestant.PARTS: replace(ordered, schedule=schedule, prices_ns=())}


def _lists_in_turn(
    prices: StagePrices,
    ordered: InterOpSchedule,
    components: Sequence[Collection[int]],
    *,
    lanes: int,
) -> InterOpSchedule:
    """List in which each component follows the one before, as it would be listed alone."""
    times, schedule = prices.operator_times(ordered), ordered
    for component in reversed(components):
        own = frozenset(component)
        # Operators that take no time are no tasks of a list.
        alone_ns = [ns if index in own else 0 for index, ns in enumerate(times.alone_ns)]
        listed = list_schedule(
            prices.graph,
            replace(times, alone_ns=alone_ns),
            lanes=lanes,
            hand_over=hand_over_of(prices.kernels.runner.built.prepared.target),
            start=ordered,
        )
        mixed = mixed_list(prices.annotate(listed), schedule, own)
        assert mixed is not None, "a list made of sequential order has no merges"
        schedule = mixed
    return schedule


def _timed(model: CompiledModel, parts: Sequence[Part]) -> tuple[ExecutionPlan, dict[str, int]]:
    """Plan of a model, and the time of each part alone."""
    whole = model.of_network(None, tuple(parts))
    with whole.executor() as executor:
        return whole.plan, least_ns_alone(executor)


def _operators_of(
    plan: ExecutionPlan,
    names: Collection[str],
    graph: OperatorGraph,
    components: Sequence[Collection[int]],
) -> set[int]:
    """Operators that named parts need, and that have no data in common with other parts."""
    bits = sum(1 << place for place, part in enumerate(plan.parts) if part.name in names)
    masks = [0] * len(graph)  # operators that need no kernel have no launch
    for launch, mask in zip(plan.launches, launch_masks(plan), strict=True):
        masks[launch.operator_index] = mask
    return {
        index
        for component in components
        if any(masks[each] for each in component)
        and not any(masks[each] & ~bits for each in component)
        for index in component
    }
