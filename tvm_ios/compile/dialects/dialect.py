"""The dialect of this process's TVM: what compiling, prices, races and passes ask of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, cast

import tvm

from tvm_ios.core.conversion import AS_IT_IS, Conversion
from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.precision.low_precision import LowPrecision
from tvm_ios.core.precision.low_values import LowValues
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.runtime.base.tvm_names import DIALECT
from tvm_ios.runtime.libraries.protocol import OperatorLibrary

__all__ = ["Dialect", "Prepared", "dialect_here", "in_precision"]


class Prepared(Protocol):
    """Fused or partitioned module; the ``PreparedModule`` of a dialect."""

    @property
    def module(self) -> tvm.IRModule:
        """The module itself."""

    @property
    def target(self) -> tvm.target.Target:
        """Target that the module is for."""

    @property
    def extraction(self) -> Any:
        """Operators of the module, of which ``graph`` is empty where no schedule helps."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines for the user on how the module was prepared."""

    @property
    def low(self) -> LowPrecision | None:
        """Values that lie in memory as bfloat16; None where all are as in the model."""

    @property
    def quantised(self) -> Any:
        """Products of a quantised model; None for other models."""


class Dialect(Protocol):
    """Dialect as everybody above ``relay/`` and ``relax/`` asks it; a module of this folder."""

    def resolve_target(self, target: Any) -> tvm.target.Target:
        """Target in TVM's form; ModelError if TVM does not have it."""

    def prepare(
        self,
        mod: Any,
        params: Mapping[str, Any] | None,
        target: Any,
        *,
        sink: bool,
        libraries: Sequence[OperatorLibrary],
    ) -> Prepared:
        """Module that is prepared, as operator libraries like it; a prepared one as it is."""

    def prepare_unless_done(
        self,
        mod: tvm.IRModule,
        params: Mapping[str, Any] | None,
        target: Any,
        conversion: Conversion = AS_IT_IS,
    ) -> Prepared | None:
        """Module that is prepared; None for one that is partitioned or has to stay as it is."""

    def pad_unless_done(
        self, mod: tvm.IRModule, params: Mapping[str, Any] | None, target: Any
    ) -> tvm.IRModule:
        """Module whose output channels fill whole vectors; the same one if it is prepared."""

    def is_partitioned(self, module: tvm.IRModule) -> bool:
        """True if a schedule has been written into a module."""

    def partitioned(
        self, mod: tvm.IRModule, params: Mapping[str, Any] | None, target: Any
    ) -> Prepared:
        """Module that a schedule has been written into, with the target it is built for."""

    def read_schedule(self, module: tvm.IRModule) -> InterOpSchedule:
        """Schedule that was written into a partitioned module."""

    def extract(self, module: tvm.IRModule) -> Any:
        """Operators of a prepared module, and the IR they stand for."""

    def rewrite_extraction(
        self, extraction: Any, schedule: InterOpSchedule, target: Any
    ) -> tvm.IRModule:
        """Copy of a prepared module for a target, partitioned by a schedule for its graph."""

    def build(self, prepared: Prepared, *, like: Any = None, absent: Collection[str] = ()) -> Any:
        """Compiled kernels of a prepared or partitioned module; its ``StagedBuild``.

        ``like`` is a build with the same tuning records that shares kernels; those of ``absent``
        functions are left out.
        """

    def describe(self, extraction: Any) -> Sequence[FusedFunction | None]:
        """Function of each operator; None of what no operator library could compute."""

    def low_values(self, extraction: Any) -> LowValues:
        """Values of a prepared model of float32 that could be bfloat16."""

    def with_low_precision(self, prepared: Any, low: LowPrecision) -> Any:
        """Prepared module of float32 whose values are bfloat16 where that is said."""

    def absentees(self, extraction: Any) -> Sequence[str]:
        """Name of each operator's kernel or function, by which ``build`` may leave it out."""

    def merged_stage(self, prepared: Any, extraction: Any, members: Sequence[int]) -> Prepared:
        """Module that computes exactly one merge stage of a model, to be built and priced.

        ``main`` takes the shared operand and returns what others in the network read: the
        concatenation that the merged convolution computes, if any, then slices for members.
        """

    def compilers(self, target: tvm.target.Target) -> tuple[str, ...]:
        """Names and versions of what compiles kernels for a target."""

    def records_digest(self) -> str:
        """Digest of the tuning records in force; empty without any."""


def dialect_here() -> Dialect:
    """Dialect of the TVM in this process: Relax for 0.27, Relay for 0.11 to 0.19."""
    return cast("Dialect", import_module(f"tvm_ios.compile.dialects.{DIALECT}"))


def in_precision(prepared: Any, low: LowPrecision | None) -> Any:
    """Prepared module of float32 with the values in bfloat16 that a schedule says.

    The same without any; None where its operators are others, so that these values cannot be.
    """
    dialect = dialect_here()
    if low is None:
        return prepared
    if not dialect.low_values(prepared.extraction).holds(low):
        return None
    return dialect.with_low_precision(prepared, low)
