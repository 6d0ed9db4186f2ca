"""The dialect that the passes work on: the one that this process's TVM has."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol, cast

import tvm

from tvm_ios.core.conversion import AS_IT_IS, Conversion
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.runtime.base.tvm_names import DIALECT

__all__ = ["Dialect", "Prepared", "dialect_here"]


class Prepared(Protocol):
    """Fused module; the ``PreparedModule`` of a dialect."""

    @property
    def module(self) -> tvm.IRModule:
        """The module itself."""

    @property
    def extraction(self) -> Any:
        """Operators of the module, of which ``graph`` is empty where no schedule helps."""


class Dialect(Protocol):
    """What the passes ask of a dialect; a module of this folder."""

    def resolve_target(self, target: Any) -> tvm.target.Target:
        """Target in TVM's form; ModelError if TVM does not have it."""

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

    def rewrite(self, module: tvm.IRModule, schedule: InterOpSchedule) -> tvm.IRModule:
        """Copy of a prepared module, partitioned by a schedule for its graph."""

    def built(self, prepared: Any, libraries: tuple[str, ...] | None) -> Any:
        """Build of a prepared module, with the operator libraries that may compute."""


def dialect_here() -> Dialect:
    """Dialect of the TVM in this process: Relax for 0.27, Relay for 0.11 to 0.19."""
    return cast("Dialect", import_module(f"tvm_ios.passes.{DIALECT}_dialect"))
