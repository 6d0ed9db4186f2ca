"""The Relay dialect: prepare, extract, merge, rewrite, build. The only room that imports Relay."""

from __future__ import annotations

from tvm_ios.relay.build import StagedBuild, build
from tvm_ios.relay.extract import Extraction, extract, is_prepared
from tvm_ios.relay.merge import merge_stage_module
from tvm_ios.relay.prepare import PreparedModule, prepare
from tvm_ios.relay.rewrite import rewrite, rewrite_extraction
from tvm_ios.relay.stage_ir import is_partitioned, read_schedule

__all__ = [
    "Extraction",
    "PreparedModule",
    "StagedBuild",
    "build",
    "extract",
    "is_partitioned",
    "is_prepared",
    "merge_stage_module",
    "prepare",
    "read_schedule",
    "rewrite",
    "rewrite_extraction",
]
