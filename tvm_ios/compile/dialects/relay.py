"""Relay as the rooms above it see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import tvm

from tvm_ios.core.conversion import AS_IT_IS, Conversion
from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.devices.targets import require_known_target
from tvm_ios.host import cached_libinfo, host_target
from tvm_ios.kernels.code_generation import compilers as compilers_here
from tvm_ios.kernels.code_generation import cuda_compiler
from tvm_ios.relay.build import StagedBuild
from tvm_ios.relay.build import build as build_module
from tvm_ios.relay.context import applied_records_digest as records_digest
from tvm_ios.relay.dataflow import has_main
from tvm_ios.relay.extract import Extraction, extract, is_prepared
from tvm_ios.relay.functions.fused_function import describe_calls
from tvm_ios.relay.inputs import CheckedModule, check_parameters, resolve_target
from tvm_ios.relay.kernels import digest_of_call
from tvm_ios.relay.merge import merge_stage_module
from tvm_ios.relay.obstacles import find_obstacles
from tvm_ios.relay.prepare import PreparedModule, with_low_precision
from tvm_ios.relay.prepare import prepare as prepare_module
from tvm_ios.relay.rewrite import rewrite_extraction as partition
from tvm_ios.relay.stage_ir import is_partitioned, read_schedule
from tvm_ios.relay.transforms.bfloat16 import low_values
from tvm_ios.relay.transforms.channel_padding import pad_channels
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
    mod: tvm.IRModule | CheckedModule,
    params: Mapping[str, Any] | None,
    target: Any,
    *,
    sink: bool,
    libraries: Sequence[OperatorLibrary],
) -> PreparedModule:
    """Module that is prepared in its own layout; others are chosen by prices before."""
    del libraries
    with cached_libinfo():
        prepared = prepare_module(mod, params, _or_host(target), sink=sink)
    require_known_target(prepared.target)
    return prepared


def prepare_unless_done(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    conversion: Conversion = AS_IT_IS,
) -> PreparedModule | None:
    """Module that is prepared; None for a module that is partitioned or has control flow."""
    if is_partitioned(mod):
        return None
    if is_prepared(mod):
        return PreparedModule(module=mod, params={}, target=resolve_target(target))
    if has_main(mod) and find_obstacles(mod):
        return None
    return prepare_module(mod, params, target, conversion=conversion)


def pad_unless_done(
    mod: tvm.IRModule, params: Mapping[str, Any] | None, target: Any
) -> tvm.IRModule:
    """Module whose output channels fill whole vectors; the same one if it is prepared."""
    if is_partitioned(mod) or is_prepared(mod) or (has_main(mod) and find_obstacles(mod)):
        return mod
    padded_mod, padded = pad_channels(mod, params, target)
    return padded_mod if padded or params else mod


def partitioned(mod: tvm.IRModule, params: Mapping[str, Any] | None, target: Any) -> PreparedModule:
    """Module that a schedule has been written into, with the target it is built for."""
    chosen = resolve_target(_or_host(target))
    require_known_target(chosen)
    arrays = check_parameters(mod["main"], params)
    return PreparedModule(module=mod, params=arrays, target=chosen)


def build(
    prepared: PreparedModule, *, like: StagedBuild | None = None, absent: Collection[str] = ()
) -> StagedBuild:
    """Compiled kernels of a prepared or partitioned module."""
    with cached_libinfo():
        return build_module(
            prepared.module,
            prepared.target,
            prepared.params,
            known=None if like is None else like.lowered,
            absent=absent,
            extraction=None if is_partitioned(prepared.module) else prepared.extraction,
        )


def rewrite_extraction(
    extraction: Extraction, schedule: InterOpSchedule, target: Any
) -> tvm.IRModule:
    """Copy of a prepared module, partitioned by a schedule for its graph; for any target."""
    del target
    return partition(extraction, schedule)


def describe(extraction: Extraction) -> Sequence[FusedFunction | None]:
    """Function of each operator; None of what no operator library could compute."""
    return describe_calls(extraction.calls)


def absentees(extraction: Extraction) -> Sequence[str]:
    """Digest of each operator's function, by which ``build`` may leave its kernel out."""
    return [digest_of_call(call) for call in extraction.calls]


def merged_stage(
    prepared: PreparedModule, extraction: Extraction, members: Sequence[int]
) -> PreparedModule:
    """Module that computes exactly one merge stage of a model, to be built and priced."""
    module = merge_stage_module(extraction, members)
    return PreparedModule(module=module, params={}, target=prepared.target)


def compilers(target: tvm.target.Target) -> tuple[str, ...]:
    """Names and versions of what compiles kernels for a target."""
    return (*compilers_here(), *([cuda_compiler()] if target.kind.name == "cuda" else []))


def _or_host(target: Any) -> Any:
    return host_target() if target is None else target
