"""Relay as prices and races see it."""

from __future__ import annotations

import tvm

from tvm_ios.compile.lower import lower_schedule as lower
from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.kernels.code_generation import compilers as compilers_here
from tvm_ios.kernels.code_generation import cuda_compiler
from tvm_ios.plan.merge_effects import MergeEffects, merge_effects
from tvm_ios.profile.stage_kernels import RelayStageRunner as stage_runner  # noqa: N813
from tvm_ios.relay.build import StagedBuild
from tvm_ios.relay.context import applied_records_digest as records_digest
from tvm_ios.relay.extract import Extraction
from tvm_ios.relay.functions.fused_function import describe_calls
from tvm_ios.relay.merge import slices_are_contiguous, stage_outputs
from tvm_ios.relay.prepare import with_low_precision
from tvm_ios.relay.transforms.bfloat16 import low_values

__all__ = [
    "compilers",
    "could_be_whole",
    "effects_of",
    "functions_of",
    "low_values",
    "lower",
    "records_digest",
    "stage_runner",
    "with_low_precision",
]


def compilers(target: tvm.target.Target) -> tuple[str, ...]:
    """Names and versions of what compiles kernels for a target."""
    return (*compilers_here(), *([cuda_compiler()] if target.kind.name == "cuda" else []))


def functions_of(extraction: Extraction) -> tuple[FusedFunction | None, ...]:
    """Function of each operator, in graph order; None of what no library could compute."""
    return describe_calls(extraction.calls)


def effects_of(staged: StagedBuild, members: tuple[int, ...]) -> MergeEffects:
    """Effects of a merge on a network without merges; members in the order of their channels."""
    return merge_effects(
        staged.graph,
        [placement.view for placement in staged.placements],
        stage_outputs(staged.extraction, members),
        contiguous=slices_are_contiguous(staged.extraction, members[0]),
    )


def could_be_whole(extraction: Extraction, member: int) -> tuple[int, ...]:
    """Concatenations that a merge stage with this member, or a part of one, may be."""

    def operand(index: int) -> str | None:
        convolution = extraction.graph.operators[index].convolution
        return None if convolution is None else convolution.operand

    own = operand(member)
    if own is None:
        return ()
    return tuple(
        index
        for index, joined in enumerate(extraction.joins)
        if joined and all(operand(other) == own for other in joined)
    )
