"""Relax as the rooms above it see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import tvm

from tvm_ios.core.conversion import AS_IT_IS, Conversion
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.devices.targets import require_known_target
from tvm_ios.errors import OptionError
from tvm_ios.relax.build import StagedBuild
from tvm_ios.relax.build import build as build_module
from tvm_ios.relax.cuda_compiler import cuda_compiler
from tvm_ios.relax.extract import Extraction, extract
from tvm_ios.relax.extract import functions_of as describe
from tvm_ios.relax.ir import is_call_tir, name_of
from tvm_ios.relax.merge import merge_stage_module
from tvm_ios.relax.prepare import PreparedModule, with_low_precision
from tvm_ios.relax.prepare import prepare as partitioned
from tvm_ios.relax.prepare import prepare as prepare_module
from tvm_ios.relax.rewrite import rewrite_extraction as partition
from tvm_ios.relax.stage_ir import is_partitioned, read_schedule
from tvm_ios.relax.stored.bfloat16 import low_values
from tvm_ios.relax.target import resolve_target
from tvm_ios.relax.tuned_loops import digest_in_force as records_digest
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

__all__ = [
    "absentees",
    "build",
    "compilers",
    "describe",
    "extract",
    "is_partitioned",
    "low_values",
    "merged_stage",
    "pad_unless_done",
    "partitioned",
    "prepare",
    "prepare_unless_done",
    "read_schedule",
    "records_digest",
    "resolve_target",
    "rewrite_extraction",
    "with_low_precision",
]


def prepare(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    *,
    sink: bool,
    libraries: Sequence[OperatorLibrary],
) -> PreparedModule:
    """Module that is prepared, with images in the layout that a library is fastest in."""
    del sink  # nothing moves in front of concatenations
    require_known_target(resolve_target(target))
    layout = next((each.image_layout for each in libraries if each.image_layout), None)
    try:
        return prepare_module(mod, params, target, image_layout=layout)
    # What is wrong in a rule of layouts of TVM's ends in any error of a pass.
    except (RuntimeError, ValueError):
        return prepare_module(mod, params, target)


def prepare_unless_done(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    conversion: Conversion = AS_IT_IS,
) -> PreparedModule | None:
    """Module that is prepared; None for one that is partitioned, or no straight line of calls."""
    if conversion.changes:
        raise OptionError(
            f"{conversion.as_text()}: Relax models are compiled as they are; convert the model "
            "before, such as by tvm.relax.transform.ConvertLayout, and leave out conversion"
        )
    if is_partitioned(mod):
        return None
    prepared = prepare_module(mod, params, target)
    return None if prepared.extraction.line.obstacles else prepared


def pad_unless_done(
    mod: tvm.IRModule, params: Mapping[str, Any] | None, target: Any
) -> tvm.IRModule:
    """Refuse: only Relay models are padded."""
    del mod, params, target
    raise OptionError("PadChannels works on Relay only; leave it out for Relax modules")


def build(
    prepared: PreparedModule, *, like: StagedBuild | None = None, absent: Collection[str] = ()
) -> StagedBuild:
    """Compiled kernels of a prepared or partitioned module, but for absent ones."""
    del like  # kernels are compiled together
    extraction = prepared.extraction
    return build_module(prepared.module, prepared.target, extraction=extraction, absent=absent)


def rewrite_extraction(
    extraction: Extraction, schedule: InterOpSchedule, target: Any
) -> tvm.IRModule:
    """Copy of a prepared module for a target, partitioned by a schedule for its graph."""
    return partition(extraction, schedule, resolve_target(target))


def absentees(extraction: Extraction) -> Sequence[str]:
    """Name of each operator's kernel, by which ``build`` may leave it out; empty without one."""
    calls = [each.call for each in extraction.line.calls]
    return [name_of(each.args[0]) if is_call_tir(each) else "" for each in calls]


def merged_stage(
    prepared: PreparedModule, extraction: Extraction, members: Sequence[int]
) -> PreparedModule:
    """Module that computes exactly one merge stage of a model, to be built and priced."""
    module = merge_stage_module(extraction, members, prepared.target)
    return PreparedModule(module=module, target=prepared.target)


def compilers(target: tvm.target.Target) -> tuple[str, ...]:
    """Names and versions of what compiles kernels for a target."""
    own = f"tvm {tvm.__version__} llvm {tvm.target.codegen.llvm_version_major()}"
    return (own, *([cuda_compiler()] if is_gpu_target(target) else []))
