"""``[scheduler]`` of a jobs file or a grid: who decides, and where workers run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tvm_ios.errors import JobError
from tvm_ios.jobs.core.limits import Limits
from tvm_ios.jobs.core.policies import PolicyName
from tvm_ios.jobs.table_values import checked, member, table_of

__all__ = ["ExecutorName", "SchedulerTable", "read_scheduler"]

_SCHEDULER_KEYS: Mapping[str, Any] = {
    "policy": str,
    "executor": str,
    "ray_address": str,
    "max_active": int,
    "max_wait_s": float,
    "max_start_wait_s": float,
}


class ExecutorName(Enum):
    """The place where workers run."""

    LOCAL = "local"
    """The machine of the daemon."""
    RAY = "ray"
    """The nodes of a Ray cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerTable:
    """The table ``[scheduler]`` of a file."""

    policy: PolicyName = PolicyName.SLACK
    executor: ExecutorName = ExecutorName.LOCAL
    limits: Limits = field(default_factory=Limits)
    """Limits of the scheduler; with Ray, of each node's."""
    ray_address: str = ""
    """``HOST:PORT`` of a Ray cluster; empty: that of ``RAY_ADDRESS``, or of this machine."""


def read_scheduler(table: Any) -> SchedulerTable:
    """Read the table ``[scheduler]``, as ``tomllib`` gives it."""
    known = checked(table_of(table, "scheduler"), _SCHEDULER_KEYS, "[scheduler] ")
    policy = member(PolicyName, known.pop("policy", "slack"), "[scheduler] policy")
    executor = member(ExecutorName, known.pop("executor", "local"), "[scheduler] executor")
    address = known.pop("ray_address", "")
    if address and executor is not ExecutorName.RAY:
        raise JobError(f'[scheduler] ray_address is {address!r}; say executor = "ray" as well')
    return SchedulerTable(
        policy=policy, executor=executor, limits=Limits(**known), ray_address=address
    )
