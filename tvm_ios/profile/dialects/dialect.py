"""The dialect of this process's TVM, as far as prices and races ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

import tvm

from tvm_ios.compile.model import CompiledModel
from tvm_ios.compile.model_kernels import ModelKernels
from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.low_precision import LowPrecision
from tvm_ios.core.low_values import LowValues
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.plan.merge_effects import MergeEffects
from tvm_ios.runtime.base.tvm_names import DIALECT
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

if TYPE_CHECKING:
    from tvm_ios.profile.dialects.stage_kernels import StageKernels

__all__ = ["Built", "Dialect", "dialect_here"]


class Built(Protocol):
    """Prepared module with its kernels, before any schedule; ``BuiltModel`` or ``RelaxModel``."""

    @property
    def prepared(self) -> Any:
        """The module, and its target."""

    @property
    def kernels(self) -> ModelKernels[Any]:
        """Compiled kernels."""

    @property
    def extraction(self) -> Any:
        """Operators of the model, and the IR they stand for."""

    @property
    def graph(self) -> OperatorGraph:
        """Graph of the scheduled operators, under the name of the model."""

    @property
    def libraries(self) -> tuple[OperatorLibrary, ...]:
        """Operator libraries that may compute in place of TVM's kernels."""


class Dialect(Protocol):
    """What prices and races ask of a dialect; a module of this folder."""

    def compilers(self, target: tvm.target.Target) -> tuple[str, ...]:
        """Names and versions of what compiles kernels for a target."""

    def records_digest(self) -> str:
        """Digest of the tuning records in force; empty without any."""

    def lower(self, built: Any, schedule: InterOpSchedule, *, lanes: int) -> CompiledModel:
        """Compiled model of a schedule on a build's kernels."""

    def stage_runner(
        self,
        built: Any,
        *,
        lanes: int,
        session: MeasuringSession,
        database: ProfileDatabase | None = None,
    ) -> StageKernels:
        """Runner of any stage of a build."""

    def functions_of(self, extraction: Any) -> Sequence[FusedFunction | None]:
        """Function of each operator, in graph order; None of what no library could compute."""

    def low_values(self, extraction: Any) -> LowValues:
        """Values of a prepared model of float32 that could be bfloat16."""

    def with_low_precision(self, prepared: Any, low: LowPrecision) -> Any:
        """Prepared module of float32 whose values are bfloat16 where that is said."""

    def effects_of(self, staged: Any, members: tuple[int, ...]) -> MergeEffects:
        """Effects of a merge on a network without merges; members in the order of channels."""

    def could_be_whole(self, extraction: Any, member: int) -> tuple[int, ...]:
        """Concatenations that a merge stage with this member, or a part of one, may be."""


def dialect_here() -> Dialect:
    """Dialect of the TVM in this process: Relax for 0.27, Relay for 0.11 to 0.19."""
    return cast("Dialect", import_module(f"tvm_ios.profile.dialects.{DIALECT}"))
