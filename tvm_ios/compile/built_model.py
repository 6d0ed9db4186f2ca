"""Built models: a prepared module with its compiled kernels, before any schedule."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import tvm

from tvm_ios.compile.dialects.dialect import Prepared, dialect_here
from tvm_ios.compile.model_kernels import ModelKernels
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.image_layouts import ImageForm
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.support.exact_bits import bits_may_change, exact_bits

__all__ = ["BuiltModel", "build_model", "build_prepared"]


@dataclass(frozen=True)
class BuiltModel:
    """A prepared module of either dialect and its kernels, before any schedule."""

    prepared: Any
    """``PreparedModule`` of the dialect, a :class:`~tvm_ios.compile.dialects.dialect.Prepared`."""
    kernels: ModelKernels[Any]
    name: str = "main"
    libraries: tuple[OperatorLibrary, ...] = ()
    """Operator libraries that may compute in place of TVM's kernels."""
    form: ImageForm | None = None
    """Form of the images, where it was chosen; None where layouts are those of the model."""
    exact: bool = field(default_factory=lambda: not bits_may_change())
    """True if the kernels have stock TVM's bits, as those built beside them have to."""

    @property
    def extraction(self) -> Any:
        """Operators of the model, and the IR they stand for."""
        return self.kernels.staged.extraction

    @cached_property
    def graph(self) -> OperatorGraph:
        """Graph of the scheduled operators, under the name of the model."""
        return OperatorGraph(self.name, self.extraction.graph.operators)

    @cached_property
    def whole(self) -> BuiltModel:
        """The model with all kernels, absent ones compiled when this is first asked for."""
        if not self.kernels.staged.absent_nodes:
            return self
        # Whoever asks may do so long after the call that asked for exact bits.
        with exact_bits(self.exact):
            kernels = build_prepared(self.prepared, like=self).kernels
        return replace(self, kernels=kernels)


def build_model(
    mod: tvm.IRModule | Any,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    *,
    name: str = "main",
    sink: bool = True,
    libraries: Sequence[OperatorLibrary] = (),
    like: BuiltModel | None = None,
) -> BuiltModel:
    """Prepared model with kernels compiled once, in which every operator is a stage of its own.

    Parameters
    ----------
    mod
        A module of the dialect of this process's TVM; one from ``PrepareModule`` is taken
        unchanged. One with a schedule is for :func:`tvm_ios.compile.lower.lower_partitioned`.
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
    libraries
        Operator libraries that compute what they can, the first that can, unless a schedule
        chooses. Images of Relax get the layout that they are fastest in.
    like
        A build with the same tuning records that shares most of its kernels.
    """
    with exact_bits(not sink):
        prepared = dialect_here().prepare(mod, params, target, sink=sink, libraries=libraries)
        built = build_prepared(prepared, name=name, like=like)
    return replace(built, libraries=tuple(libraries))


def build_prepared(
    prepared: Prepared,
    *,
    name: str = "main",
    like: BuiltModel | None = None,
    absent: Collection[str] = (),
) -> BuiltModel:
    """Prepared model with compiled kernels; arguments as in :func:`build_model`.

    Kernels of ``absent`` functions are left out, as :func:`tvm_ios.relay.build` does.
    """
    known = None if like is None else like.kernels.staged
    staged = dialect_here().build(prepared, like=known, absent=absent)
    return BuiltModel(prepared, ModelKernels(staged), name)
