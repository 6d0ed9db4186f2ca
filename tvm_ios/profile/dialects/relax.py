"""Relax as prices and races see it: no merges of convolutions."""

from __future__ import annotations

from typing import NoReturn

import tvm

from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.relax_model import RelaxModel
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.errors import CostError
from tvm_ios.profile.dialects.stage_kernels import StageKernels as stage_runner  # noqa: N813
from tvm_ios.relax.build import StagedBuild
from tvm_ios.relax.extract import Extraction
from tvm_ios.relax.tuned_loops import digest_in_force as records_digest

__all__ = [
    "compilers",
    "could_be_whole",
    "effects_of",
    "lower",
    "records_digest",
    "stage_runner",
]


def compilers(target: tvm.target.Target) -> tuple[str, ...]:
    """Names and versions of what compiles kernels for a target."""
    del target  # a CPU
    return (f"tvm {tvm.__version__} llvm {tvm.target.codegen.llvm_version_major()}",)


def lower(built: RelaxModel, schedule: InterOpSchedule, *, lanes: int) -> CompiledModel:
    """Compiled model of a schedule on a build's kernels."""
    return built.lower(schedule, lanes=lanes)


def effects_of(staged: StagedBuild, members: tuple[int, ...]) -> NoReturn:
    """Refuse: no operator of Relax says that it may merge."""
    del staged
    raise CostError(f"operators {members} are of Relax, where nothing merges; search again")


def could_be_whole(extraction: Extraction, member: int) -> tuple[int, ...]:
    """Concatenations that a merge stage with this member may be: none."""
    del extraction, member
    return ()
