"""Contestants whose activations fit into a limit of memory: where they do not, less runs at once.

A plan gives two tensors the same bytes only if no order that data allow has both. So operators
that run side by side need more memory than the same ones in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.errors import OptionError
from tvm_ios.plan.plan import BufferKind, ExecutionPlan
from tvm_ios.profile.last_race import Racer
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.race import compiled_for
from tvm_ios.report.contestants import Contestant
from tvm_ios.search.baselines import sequential_schedule

__all__ = ["MemoryLimit"]

_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """Limit of the memory that contestants of a call may plan for activations."""

    limit_mb: float | None
    """Megabytes (1e6 bytes); None sets no limit."""
    notes: list[str] = field(default_factory=list)
    """Lines on contestants that had to change for it, as they come."""

    @classmethod
    def over(
        cls,
        built: BuiltModel,
        limit_mb: float | None,
        session: MeasuringSession,
        call: MeasuringCall,
    ) -> Self:
        """Limit of a call; refused where not even sequential order of its build fits."""
        if limit_mb is not None:
            ordered = sequential_schedule(built.graph)
            plan = compiled_for(
                session, built, ordered, lanes=call.lanes, database=call.database
            ).plan
            if not _fits(plan, limit_mb):
                needed_mb = math.ceil(plan.arena_bytes / _MEGABYTE * 100) / 100
                raise OptionError(
                    f"memory_limit_mb is {limit_mb:g}, but activations need {needed_mb:.2f} MB "
                    "even in sequential order; give at least that"
                )
        return cls(limit_mb=limit_mb)

    def fitting(self, racers: Mapping[Contestant, Racer]) -> dict[Contestant, Racer]:
        """Contestants within the limit, made narrower where they have to be.

        Concurrent stages run in order where memory is fullest, in as few stages as fit. A list has
        no stages, so it fits or is left out.
        """
        if self.limit_mb is None:
            return dict(racers)
        found = {who: self._fitting(who, racer) for who, racer in racers.items()}
        return {who: racer for who, racer in found.items() if racer is not None}

    def _fitting(self, who: Contestant, racer: Racer) -> Racer | None:
        assert self.limit_mb is not None
        plan = racer.compiled().plan
        if _fits(plan, self.limit_mb):
            return racer
        told = f"activations of {who.value} take {plan.arena_bytes / _MEGABYTE:.2f} MB"
        narrow = _narrowed(racer.schedule, plan, self.limit_mb, racer.lower)
        if narrow is None:
            self.notes.append(f"{told}, more than {self.limit_mb:g}: it does not race")
            return None
        schedule, count = narrow
        self.notes.append(
            f"{told}: for {self.limit_mb:g}, {count} of its concurrent stages run in order"
        )
        return replace(racer, schedule=schedule, prices_ns=())


def _fits(plan: ExecutionPlan, limit_mb: float) -> bool:
    return plan.arena_bytes <= limit_mb * _MEGABYTE


def _narrowed(
    schedule: InterOpSchedule,
    plan: ExecutionPlan,
    limit_mb: float,
    lower: Callable[[InterOpSchedule], CompiledModel],
) -> tuple[InterOpSchedule, int] | None:
    """Schedule with the fewest stages in order that fits, and their number.

    None where nothing is left of it but sequential order, or not even that fits.
    """
    alive = _bytes_alive(plan)
    several = [number for number, stage in enumerate(schedule.stages) if len(stage.groups) > 1]
    wide = [number for number in several if not schedule.stages[number].is_merge]
    wide.sort(key=lambda number: -alive.get(number, 0))

    def narrowed(count: int) -> InterOpSchedule:
        return _in_order(schedule, frozenset(wide[:count]))

    def is_enough(count: int) -> bool:
        return _fits(lower(narrowed(count)).plan, limit_mb)

    too_few, enough = 0, len(wide)
    if schedule.home_lanes or not wide or not is_enough(enough):
        return None
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if is_enough(middle) else (middle, enough)
    return None if enough == len(several) else (narrowed(enough), enough)


def _in_order(schedule: InterOpSchedule, narrow: frozenset[int]) -> InterOpSchedule:
    """The schedule with the operators of some stages one after another."""
    stages = []
    for number, stage in enumerate(schedule.stages):
        alone = [Stage(((index,),)) for index in stage.operators]
        stages += alone if number in narrow else [stage]
    return replace(schedule, stages=tuple(stages), latency_ns=None)


def _bytes_alive(plan: ExecutionPlan) -> dict[int, int]:
    """Bytes by stage of the activations that are written and still read then."""
    spans: dict[int, tuple[int, int]] = {}
    for group in plan.groups:
        for number in group.launches:
            launch = plan.launches[number]
            for tensor in (*launch.inputs, *launch.outputs):
                buffer = plan.tensors[tensor].buffer
                first, last = spans.get(buffer, (group.stage, group.stage))
                spans[buffer] = min(first, group.stage), max(last, group.stage)
    alive: dict[int, int] = {}
    for buffer, (first, last) in spans.items():
        if plan.buffers[buffer].kind is BufferKind.ARENA:
            for stage in range(first, last + 1):
                alive[stage] = alive.get(stage, 0) + plan.buffers[buffer].size_bytes
    return alive
