"""The Relax dialect of TVM 0.27: prepare, extract, rewrite, build. Only this room imports it."""

from __future__ import annotations

from tvm_ios.relax.build import StagedBuild, build
from tvm_ios.relax.extract import Extraction, extract, is_prepared
from tvm_ios.relax.prepare import PreparedModule, prepare
from tvm_ios.relax.rewrite import rewrite, rewrite_extraction
from tvm_ios.relax.stage_ir import is_partitioned, read_schedule
from tvm_ios.relax.target import host_target

__all__ = [
    "Extraction",
    "PreparedModule",
    "StagedBuild",
    "build",
    "extract",
    "host_target",
    "is_partitioned",
    "is_prepared",
    "prepare",
    "read_schedule",
    "rewrite",
    "rewrite_extraction",
]
