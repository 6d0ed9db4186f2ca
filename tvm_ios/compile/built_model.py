"""Built models: compiled kernels of one module, before any schedule.

:class:`ModelKernels` is compiled code, shared by all schedules without merges; :class:`BuiltModel`
is what such schedules are for.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import tvm
from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

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
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.native_runtime import shared_runtime
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.support.exact_bits import exact_bits

__all__ = ["BuiltModel", "LinkedKernels", "ModelKernels", "build_model", "build_prepared"]


class LinkedKernels:
    """Compiled kernels in a file of their own, loaded on first use.

    The file lives as long as this object; executors keep the code they have loaded.
    """

    def __init__(
        self,
        factory: GraphExecutorFactoryModule,
        params: Mapping[str, tvm.nd.NDArray],
        target: tvm.target.Target,
    ) -> None:
        self.factory = factory
        """Kernels and parameters as ``relay.build`` returns them."""
        self.params = params
        """Parameters of the kernels by name."""
        self.target = target
        """Target that the kernels are compiled for."""
        self._lock = Lock()
        self._folder = Path(tempfile.mkdtemp(prefix="tvm-ios-"))
        # A finalizer runs at the end of the process, too, where __del__ may not.
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    @cached_property
    def path(self) -> Path:
        """Path of the exported kernels, without parameters."""
        path = self._folder / "kernels.so"
        with self._lock:  # from Python 3.12 on a cached_property has none
            if not path.exists():
                self.factory.get_lib().export_library(str(path))
        return path

    @cached_property
    def library(self) -> KernelLibrary:
        """Loaded kernels, whose parallel launches go to our lanes."""
        return KernelLibrary(self.path, shared_runtime())


class ModelKernels(LinkedKernels):
    """Compiled kernels of one module, with all that is known of its operators."""

    def __init__(self, staged: StagedBuild) -> None:
        super().__init__(staged.factory, staged.params, staged.target)
        self.staged = staged


@dataclass(frozen=True)
class BuiltModel:
    """A prepared module and its kernels, before any schedule."""

    prepared: PreparedModule
    kernels: ModelKernels
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
