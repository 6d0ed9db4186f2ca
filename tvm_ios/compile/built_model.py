"""Built models: a Relay module with its compiled kernels, before any schedule."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tvm

from tvm_ios.compile.model_kernels import ModelKernels
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.image_layouts import ImageForm
from tvm_ios.devices.targets import require_known_target
from tvm_ios.host import cached_libinfo, host_target
from tvm_ios.relay import (
    Extraction,
    PreparedModule,
    StagedBuild,
    build,
    prepare,
)
from tvm_ios.relay.inputs import CheckedModule
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.support.exact_bits import exact_bits

__all__ = ["BuiltModel", "build_model", "build_prepared"]


@dataclass(frozen=True)
class BuiltModel:
    """A prepared module and its kernels, before any schedule."""

    prepared: PreparedModule
    kernels: ModelKernels[StagedBuild]
    name: str = "main"
    libraries: tuple[OperatorLibrary, ...] = ()
    """Operator libraries that may compute in place of TVM's kernels."""
    form: ImageForm | None = None
    """Form of the images, where it was chosen; None where layouts are those of the model."""

    @property
    def extraction(self) -> Extraction:
        """Operators of the model, and the IR they stand for."""
        return self.kernels.staged.extraction

    @cached_property
    def graph(self) -> OperatorGraph:
        """Graph of the scheduled operators, under the name of the model."""
        return OperatorGraph(self.name, self.extraction.graph.operators)

    @cached_property
    def whole(self) -> BuiltModel:
        """The model with all kernels, absent ones compiled when this is first asked for."""
        if not self.kernels.staged.absent:
            return self
        # Whoever asks may do so long after the call that asked for exact bits.
        with exact_bits(self.kernels.staged.exact):
            kernels = build_prepared(self.prepared, like=self).kernels
        return replace(self, kernels=kernels)


def build_model(
    mod: tvm.IRModule | CheckedModule,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    *,
    name: str = "main",
    sink: bool = True,
    like: BuiltModel | None = None,
) -> BuiltModel:
    """Prepared model with kernels compiled once, in which every operator is a stage of its own.

    Parameters
    ----------
    mod
        A Relay module; a module from ``PrepareModule`` is taken unchanged.
    params
        Parameters by name.
    target
        A CPU target, or one such as ``cuda -arch=sm_90``; the best for this processor where
        omitted.
    name
        Name of the operator graph, for pictures and reports.
    sink
        As in :func:`tvm_ios.relay.prepare`; False compiles what TVM alone would compile, with its
        bits.
    like
        A build with the same tuning records that shares most of its kernels.
    """
    with cached_libinfo(), exact_bits(not sink):
        prepared = prepare(mod, params, target if target is not None else host_target(), sink=sink)
        require_known_target(prepared.target)
        return build_prepared(prepared, name=name, like=like)


def build_prepared(
    prepared: PreparedModule,
    *,
    name: str = "main",
    like: BuiltModel | None = None,
    absent: Collection[str] = (),
) -> BuiltModel:
    """Prepared model with compiled kernels; arguments as in :func:`build_model`.

    Kernels of ``absent`` functions are left out, as :func:`tvm_ios.relay.build` does.
    """
    with cached_libinfo():
        known = None if like is None else like.kernels.staged.lowered
        staged = build(
            prepared.module,
            prepared.target,
            prepared.params,
            known=known,
            absent=absent,
            extraction=prepared.extraction,
        )
    return BuiltModel(prepared, ModelKernels(staged), name)
