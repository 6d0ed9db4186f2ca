"""Compiled models of one network in several shapes, as one program that stores weights once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.compile.model import CompiledModel, fact_store
from tvm_ios.compile.model_kernels import LinkedKernels
from tvm_ios.errors import ModelError
from tvm_ios.plan.data_type import dtype_bytes
from tvm_ios.plan.parts.shapes import joined_shapes
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.report.shapes_report import ShapesReport
from tvm_ios.runtime.artifact.artifact import export_artifact, load
from tvm_ios.runtime.artifact.factory import ExecutableFactory, with_library
from tvm_ios.runtime.artifact.new_artifact import copy_artifact
from tvm_ios.runtime.artifact.plan_executor import plan_executor
from tvm_ios.runtime.artifact.story import ModelStory
from tvm_ios.runtime.base.lane_pool import LaneOptions
from tvm_ios.runtime.base.tvm_names import IS_FFI
from tvm_ios.runtime.cpu.shapes_module import ShapesModule

__all__ = ["CompiledShapes"]


@dataclass(frozen=True, kw_only=True, repr=False)
class CompiledShapes:
    """Compiled model for a CPU in several shapes, each with a schedule of its own.

    Parameters of equal values and equal kernels are there once, and shapes share memory of
    activations.
    """

    models: Mapping[str, CompiledModel]
    """Model of each shape, by the shape's name."""
    kept_as: str = ""
    """Key of the cache's entry that holds it; empty without one."""
    file: Path | None = None
    """Exported file of equal models in the cache; None before there is one."""

    @cached_property
    def plan(self) -> ExecutionPlan:
        """Plan that has each shape as a part."""
        plans = {
            name: _with_joined_names(each) if IS_FFI else each.plan
            for name, each in self.models.items()
        }
        return joined_shapes(plans, self._weights.names)

    @cached_property
    def kernels(self) -> LinkedKernels:
        """Kernels and parameters of all shapes. Stock TVM runs the first one with Relay's."""
        staged = [each.kernels.staged for each in self.models.values()]
        weights = self._weights.arrays
        if IS_FFI:
            from tvm_ios.relax.build import joined_library  # noqa: PLC0415 - imports Relax

            joined = ExecutableFactory(joined_library(staged), staged[0].target, weights)
            return LinkedKernels(joined, weights, staged[0].target)
        library = _joined_library(staged, self.plan)
        factory = with_library(staged[0].factory, library, weights)
        return LinkedKernels(factory, weights, staged[0].target)

    @cached_property
    def _weights(self) -> _Weights:
        return _Weights.of(list(self.models.values()))

    def executor(
        self, *, lanes: int | None = None, options: LaneOptions | None = None
    ) -> ShapesModule:
        """Executor in this process; arguments and errors are those of ``CompiledModel``'s."""
        if self.file is not None and self.file.exists():  # it may be trimmed
            loaded = load(self.file, lanes=lanes, options=options)
        else:
            loaded = plan_executor(
                self.plan,
                self.kernels.library,
                self.kernels.params,
                self.kernels.target,
                device=None,
                lanes=lanes,
                options=options,
                cuda_graph=False,
                store=fact_store(self.plan),
                rest=None,
            )
        assert isinstance(loaded, ShapesModule), "its plan is of shapes"
        return loaded

    def export_library(self, path: str | Path) -> None:
        """Write all shapes into one file, which :func:`tvm_ios.load` reads back.

        Raises
        ------
        ArtifactError
            If the file cannot be written.
        """
        if self.file is not None and self.file.exists():
            copy_artifact(self.file, Path(path))
            return
        export_artifact(self.kernels.factory, self.plan, path, self.story(), fact_store(self.plan))

    def story(self) -> ModelStory:
        """Story of the first shape, which holds those of the others."""
        first, *others = (replace(each.story(), shape=name) for name, each in self.models.items())
        return replace(first, others=tuple(others))

    def report(self) -> ShapesReport:
        """Report with a row and the whole report of each shape.

        Raises
        ------
        OptionError
            If a shape was compiled without tuning.
        """
        return ShapesReport(
            reports={name: each.report() for name, each in self.models.items()},
            weight_bytes=self._weights.size_bytes,
            separate_bytes=self._weights.separate_bytes,
        )

    def as_text(self) -> str:
        """Text of the schedule of each shape."""
        return "\n".join(f"{name}\n{each.as_text()}" for name, each in self.models.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """Parameters of several models, those of equal values once."""

    arrays: Mapping[str, Any]
    names: tuple[Mapping[str, str], ...]
    """Name of each parameter among these, by its name in its model, for each model."""
    separate_bytes: int
    """Bytes of the parameters of all models, one by one."""

    @classmethod
    def of(cls, models: Sequence[CompiledModel]) -> _Weights:
        taken = {entry.name for model in models for entry in model.plan.inputs}
        arrays: dict[str, Any] = {}
        known: dict[Any, str] = {}
        names: list[dict[str, str]] = []
        separate_bytes = 0
        for place, model in enumerate(models):
            found = {}
            for name, array in model.kernels.params.items():
                separate_bytes += _size_bytes(array)
                content = array.numpy()
                key = (content.dtype.str, array.dtype, content.shape, _digest(content))
                if key not in known:
                    known[key] = name if not place else _free(f"{name}_{place}", taken)
                    arrays[known[key]] = array
                found[name] = known[key]
            names.append(found)
        return cls(arrays=arrays, names=tuple(names), separate_bytes=separate_bytes)

    @property
    def size_bytes(self) -> int:
        """Bytes of the parameters."""
        return sum(map(_size_bytes, self.arrays.values()))


def _free(name: str, taken: set[str]) -> str:
    """A name that no input or parameter has, which is taken then."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _digest(content: Any) -> bytes:
    return hashlib.sha256(content.tobytes()).digest()


def _size_bytes(array: Any) -> int:
    return math.prod(map(int, array.shape)) * dtype_bytes(array.dtype)


def _with_joined_names(model: CompiledModel) -> ExecutionPlan:
    """Plan of a model of Relax that names kernels as the library of all shapes does."""
    from tvm_ios.relax.build import joined_name  # noqa: PLC0415 - imports Relax

    staged = model.kernels.staged
    launches = (
        replace(each, kernel=joined_name(staged, each.kernel)) for each in model.plan.launches
    )
    return replace(model.plan, launches=tuple(launches))


def _joined_library(builds: Sequence[Any], plan: ExecutionPlan) -> tvm.runtime.Module:
    """Library with the kernels of several builds for their joined plan, those of one symbol once.

    Raises
    ------
    ModelError
        If TVM compiled a kernel with the module around it, under a name of that module.
    """
    # A module of its own: what is imported into one of a build would be exported with that, too.
    nothing = tvm.tir.PrimFunc([], tvm.tir.Evaluate(0)).with_attr("global_symbol", "tvm_ios_none")
    library = tvm.build(tvm.IRModule({"tvm_ios_none": nothing}), target=builds[0].target)
    symbols: set[str] = set()
    for build in builds:
        for module in build.factory.get_lib().imported_modules:
            names = {str(name) for name in module["get_func_names"]()}
            if not names & symbols:
                library.import_module(module)
            symbols |= names
    for launch in plan.launches:
        if launch.call is None and launch.kernel not in symbols:
            raise ModelError(
                f"kernel {launch.kernel} was compiled with the module around it, and several "
                "shapes share kernels that were compiled one by one; make a file of each shape"
            )
    return library
