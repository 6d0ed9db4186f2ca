"""Passes for a ``tvm.transform.Sequential``: thin shells over search and dialect."""

from __future__ import annotations

from tvm_ios.passes.pad_channels import PadChannels
from tvm_ios.passes.partition_stages import PartitionStages
from tvm_ios.passes.prepare_module import PrepareModule
from tvm_ios.passes.schedule_operators import ScheduleOperators, Scheduler

__all__ = ["PadChannels", "PartitionStages", "PrepareModule", "ScheduleOperators", "Scheduler"]
