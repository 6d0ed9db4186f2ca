"""The TVM-free nouns: operator graph, schedule blocks, endings, schedules and their verifiers."""

from __future__ import annotations

from tvm_ios.core.endings import EndingRule
from tvm_ios.core.graph import Convolution, Operator, OperatorGraph
from tvm_ios.core.merge_rule import (
    MergedConvolution,
    MergedMember,
    merge_convolutions,
    why_not_merge,
)
from tvm_ios.core.partition import Partition, ScheduleBlock, partition_graph
from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
from tvm_ios.core.verify import verify_graph, verify_schedule

__all__ = [
    "Convolution",
    "EndingRule",
    "InterOpSchedule",
    "MergedConvolution",
    "MergedMember",
    "Operator",
    "OperatorGraph",
    "Partition",
    "ScheduleBlock",
    "Stage",
    "Strategy",
    "merge_convolutions",
    "partition_graph",
    "verify_graph",
    "verify_schedule",
    "why_not_merge",
]
