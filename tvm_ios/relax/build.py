"""Compilation of a prepared or partitioned module of Relax, with the place of each kernel."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import tvm

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.stage_attributes import PlacedKernel, kernels_of_stage, kernels_one_by_one
from tvm_ios.errors import ModelError
from tvm_ios.plan.kernel_graph import GraphOperator, GraphTensor, KernelGraph
from tvm_ios.plan.placement import Placement
from tvm_ios.plan.schedule_places import placements_at
from tvm_ios.relax.cuda_compiler import require_cuda_compiler
from tvm_ios.relax.extract import Extraction, extract, functions_of, kernel_of
from tvm_ios.relax.ir import Constant
from tvm_ios.relax.kernel_text import kernel_text
from tvm_ios.relax.schedules.gpu import with_default_loops
from tvm_ios.relax.stage_ir import is_partitioned, read_schedule
from tvm_ios.relax.straight_line import Made, ReadCall, leaves
from tvm_ios.relax.target import resolve_target
from tvm_ios.runtime.artifact.factory import ExecutableFactory
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.search.baselines import sequential_schedule

__all__ = ["StagedBuild", "build", "joined_library", "joined_name"]


@dataclass(frozen=True, kw_only=True)
class StagedBuild:
    """Compiled kernels, and the place of every operator in the schedule."""

    library: tvm.runtime.Module
    """Kernels by TVM-FFI's symbols, ``__tvm_ffi_`` and the name of the kernel."""
    absent: frozenset[str]
    """Kernels, by name, that were left out: an operator library computes them."""
    graph: KernelGraph
    params: dict[str, tvm.runtime.Tensor]
    """Constants of the model, by their names in the graph."""
    placements: tuple[Placement, ...]
    """Place of each operator, in graph order."""
    operator_names: tuple[str, ...]
    members: tuple[tuple[str, ...], ...]
    """Names of the model's operators that each operator computes, in graph order: several for a
    merged convolution, none for a copy of its slice."""
    kernel_codes: tuple[str, ...]
    """Digest of the loops of each operator's kernel, in graph order."""
    extraction: Extraction
    schedule: InterOpSchedule
    """Schedule of a partitioned module; the sequential one of any other."""
    target: tvm.target.Target

    def describe(self) -> Sequence[FusedFunction | None]:
        """Function of each operator, in graph order; None of what no library could compute."""
        return functions_of(self.extraction)

    @cached_property
    def absent_nodes(self) -> frozenset[int]:
        """Operators whose kernels were left out."""
        operators = enumerate(self.graph.operators)
        return frozenset(number for number, each in operators if each.kernel in self.absent)

    @property
    def kernel_keys(self) -> dict[str, str]:
        """Digest of the loops of each kernel, by name."""
        named = zip(self.graph.operators, self.kernel_codes, strict=True)
        return {each.kernel: code for each, code in named if each.kernel}

    @property
    def factory(self) -> ExecutableFactory:
        """Kernels, target and constants, as an exported file takes them."""
        return ExecutableFactory(self.library, self.target, self.params)


def build(
    module: tvm.IRModule,
    target: Any = None,
    *,
    extraction: Extraction | None = None,
    absent: Collection[str] = (),
) -> StagedBuild:
    """Kernels compiled with TVM, under the caller's PassContext.

    Parameters
    ----------
    module
        A module prepared, or partitioned; without stages every operator is a stage of its own.
    target
        Target, as :func:`tvm_ios.relax.target.resolve_target` takes it.
    extraction
        Operators of the module, if somebody has extracted them.
    absent
        Kernels, by name, that are not compiled, since operator libraries compute them.

    Raises
    ------
    ModelError
        If something in the module is no kernel of known shapes, or TVM cannot compile it.
    HostError
        If the target is a GPU, and CUDA's runtime or a compiler for it is missing.
    """
    chosen = resolve_target(target)
    extraction = extraction or extract(module)
    if extraction.coverage.barriers:
        barrier = extraction.coverage.barriers[0]
        raise ModelError(
            f"nothing to build: {barrier.where}: {barrier.reason}; bind open dimensions by "
            "tvm.relax.transform.BindSymbolicVars; else only TVM's virtual machine runs the module "
            "(tvm.compile)"
        )
    if is_partitioned(module):
        schedule, placed = read_schedule(module), _placed(extraction)
    else:
        schedule = sequential_schedule(extraction.graph)
        placed = kernels_one_by_one(schedule.operator_names)
    names = tuple(kernel.name for kernel in placed)
    graph = _GraphOfKernels(extraction, names)
    return StagedBuild(
        library=_compile(_kernels(extraction, absent), chosen),
        absent=frozenset(absent),
        graph=graph.finish(),
        params=graph.params,
        placements=placements_at(extraction, schedule, placed),
        operator_names=names,
        members=tuple(kernel.members for kernel in placed),
        kernel_codes=tuple(_code_of(extraction, call) for call in extraction.line.calls),
        extraction=extraction,
        schedule=schedule,
        target=chosen,
    )


def joined_library(builds: Sequence[StagedBuild]) -> tvm.runtime.Module:
    """Library with the kernels of several builds, equal ones once, named by :func:`joined_name`."""
    kernels = {
        joined_name(build, name): function
        for build in builds
        for name, function in _kernels(build.extraction, build.absent).items()
    }
    return _compile(kernels, builds[0].target)


def joined_name(build: StagedBuild, kernel: str) -> str:
    """Name of a build's kernel in a library of several builds, whose names may be alike."""
    code = build.kernel_keys.get(kernel)
    return kernel if code is None else f"{kernel}_{code}"


def _placed(extraction: Extraction) -> tuple[PlacedKernel, ...]:
    """Place of every call of a partitioned module, in its order."""
    placed: list[PlacedKernel] = []
    calls = [call.stage for call in extraction.line.calls]
    for stage in dict.fromkeys(calls):
        function = extraction.module[stage] if stage else None
        kernels = () if function is None else kernels_of_stage(function.attrs, stage)
        if len(kernels) != calls.count(stage):
            raise ModelError(
                f"function {stage or 'main'} lists {len(kernels)} operators but calls "
                f"{calls.count(stage)} kernels; a later pass changed it, so schedule the module "
                "again"
            )
        placed += kernels
    return tuple(placed)


def _code_of(extraction: Extraction, call: ReadCall) -> str:
    text = kernel_text(extraction.module[call.call.args[0]])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _kernels(extraction: Extraction, absent: Collection[str]) -> dict[str, tvm.tirx.PrimFunc]:
    """Kernels that have to run and are not absent, by name."""
    return {
        name: function
        for index, call in enumerate(extraction.line.calls)
        if (function := kernel_of(extraction.module, call)) is not None
        and index not in extraction.reshapes
        and (name := call.call.args[0].name_hint) not in absent
    }


def _compile(
    kernels: Mapping[str, tvm.tirx.PrimFunc], target: tvm.target.Target
) -> tvm.runtime.Module:
    """Library of kernels under their names."""
    named = {name: function.with_attr("global_symbol", name) for name, function in kernels.items()}
    module, on_gpu = tvm.IRModule(named), is_gpu_target(target)
    if on_gpu:
        require_cuda_compiler()
        module = with_default_loops(module, target)
    try:
        with target:  # the compiler of CUDA source asks for it
            library = tvm.tirx.build(module, target=target)
        # An object file holds no code for a GPU.
        return library if on_gpu else _in_machine_code(library)
    except (RuntimeError, ValueError) as error:
        raise ModelError(
            f"TVM cannot compile this module for target {str(target)!r}: "
            f"{str(error).splitlines()[-1]}"
        ) from error


def _in_machine_code(library: tvm.runtime.Module) -> tvm.runtime.Module:
    """The kernels as an object file in memory; LLVM would make it anew for each export."""
    with tempfile.TemporaryDirectory(prefix="tvm-ios-") as folder:
        path = f"{folder}/kernels.o"
        library.write_to_file(path)
        return tvm.runtime.load_static_library(path, [])


@dataclass(slots=True)
class _GraphOfKernels:
    """Graph under construction: inputs, then constants as they are read, then outputs."""

    extraction: Extraction
    names: tuple[str, ...]
    tensors: list[GraphTensor] = field(default_factory=list)
    made: dict[Made, int] = field(default_factory=dict)
    """Tensor of every value."""
    constants: dict[int, int] = field(default_factory=dict)
    """Tensor of each constant, by the hash of its object."""
    inputs: list[tuple[str, int]] = field(default_factory=list)
    params: dict[str, tvm.runtime.Tensor] = field(default_factory=dict)

    def finish(self) -> KernelGraph:
        line = self.extraction.line
        for number, (name, tensor) in enumerate(line.parameters):
            self.made[Made(-1, number)] = self._add(tensor)
            self.inputs.append((name, self.made[Made(-1, number)]))
        operators = tuple(
            self._operator(index, call, name)
            for index, (call, name) in enumerate(zip(line.calls, self.names, strict=True))
        )
        outputs = tuple(self._tensor(leaf) for leaf in leaves(line.result))
        return KernelGraph(
            tensors=tuple(self.tensors),
            operators=operators,
            inputs=tuple(self.inputs),
            outputs=outputs,
        )

    def _operator(self, index: int, call: ReadCall, name: str) -> GraphOperator:
        arguments = call.call.args[1].fields
        read = [call.reads.get(each, each) for each in arguments]
        inputs = tuple(self._tensor(leaf) for tree in read for leaf in leaves(tree))
        for output, tensor in enumerate(call.outputs):
            self.made[Made(index, output)] = self._add(tensor)
        return GraphOperator(
            name=name,
            kernel=None if index in self.extraction.reshapes else call.call.args[0].name_hint,
            inputs=inputs,
            outputs=tuple(self.made[Made(index, n)] for n in range(len(call.outputs))),
            flatten=False,
        )

    def _tensor(self, leaf: Any) -> int:
        if isinstance(leaf, Made):
            return self.made[leaf]
        if not isinstance(leaf, Constant):
            raise ModelError(f"{leaf} is no tensor; a kernel or the result of main reads it")
        key = hash(leaf)
        if key not in self.constants:
            tensor = GraphTensor(tuple(map(int, leaf.value.shape)), str(leaf.value.dtype))
            self.constants[key] = self._add(tensor)
            taken = {name for name, _ in self.inputs}
            number = len(self.params)
            while f"p{number}" in taken:
                number += 1
            self.inputs.append((f"p{number}", self.constants[key]))
            self.params[f"p{number}"] = leaf.value
        return self.constants[key]

    def _add(self, tensor: GraphTensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1
