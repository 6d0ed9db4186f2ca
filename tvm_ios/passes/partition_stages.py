"""The pass ``tvm_ios.PartitionStages``: goes after ``PrepareModule``; writes a given schedule.

It cannot search; see ``ScheduleOperators``. A module that is partitioned already is returned
unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm

from tvm_ios.compile.dialects.dialect import dialect_here
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.errors import OptionError

__all__ = ["PartitionStages"]


@tvm.transform.module_pass(opt_level=0, name="tvm_ios.PartitionStages")
@dataclass(frozen=True, kw_only=True)
class PartitionStages:
    """Pass that turns the stages of a schedule into functions of the module.

    Raises
    ------
    OptionError
        If ``schedule`` is no schedule, or has values in bfloat16; raised where the pass is made.
    """

    schedule: InterOpSchedule
    """Schedule that was made for the graph of this very module."""
    target: Any = None
    """Target that Relax makes kernels of merge stages for, this processor where omitted; not read
    with Relay, whose kernels are made when the module is built."""

    def __post_init__(self) -> None:
        if not isinstance(self.schedule, InterOpSchedule):
            raise OptionError(
                f"schedule is {self.schedule!r}; give an InterOpSchedule, such as "
                "InterOpSchedule.from_json makes of a file's text"
            )
        if self.schedule.low is not None:
            raise OptionError(
                "the schedule has values in bfloat16, which a module of PrepareModule has not, nor "
                "can TVM compile them by itself; give compile_schedule the module and the schedule"
            )

    def transform_module(self, mod: tvm.IRModule, _context: tvm.transform.PassContext) -> Any:
        """Module that the pass returns; TVM calls this."""
        dialect = dialect_here()
        if dialect.is_partitioned(mod):
            return mod
        return dialect.rewrite_extraction(dialect.extract(mod), self.schedule, self.target)
