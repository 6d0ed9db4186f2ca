"""Plan of compiled kernels of either dialect, and what a schedule and a target say about lanes."""

from __future__ import annotations

from collections.abc import Sequence

import tvm

from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.plan.lanes import CORES, STREAMS, HandOver
from tvm_ios.plan.lower import lower_plan
from tvm_ios.plan.placed_kernels import PlacedKernels
from tvm_ios.plan.placement import Placement
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.plan.verify import verify_plan
from tvm_ios.runtime.base.device import is_gpu_target

__all__ = ["hand_over_of", "plan_of", "widest_stage"]


def plan_of(staged: PlacedKernels, placements: Sequence[Placement], lanes: int) -> ExecutionPlan:
    """Verified plan of kernels with these placements in place of their own."""
    plan = lower_plan(
        staged.graph,
        placements,
        lanes=lanes,
        operator_names=staged.operator_names,
        hand_over=hand_over_of(staged.target),
    )
    verify_plan(plan)
    return plan


def hand_over_of(target: tvm.target.Target) -> HandOver:
    """Cost of a hand-over between lanes where a target's code runs."""
    return STREAMS if is_gpu_target(target) else CORES


def widest_stage(schedule: InterOpSchedule) -> int:
    """Number of streams that a GPU can use: lanes of a list, or else most groups in a stage."""
    if schedule.home_lanes:
        return schedule.num_home_lanes
    groups = (1 if stage.is_merge else len(stage.groups) for stage in schedule.stages)
    return max(groups, default=1)
