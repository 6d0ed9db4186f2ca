"""Compilation of a prepared or partitioned module, with the place of each of its kernels."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay
from tvm.ir.transform import PassContext
from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

from tvm_ios.core.fused_function import FusedFunction
from tvm_ios.core.stage_attributes import kernels_one_by_one
from tvm_ios.errors import ModelError
from tvm_ios.kernels.archive import import_kernels
from tvm_ios.kernels.compile import KernelCompiler
from tvm_ios.kernels.cuda_source import mended_cuda_source
from tvm_ios.kernels.lowered import LoweredKernel
from tvm_ios.plan.kernel_graph import KernelGraph
from tvm_ios.plan.placement import Placement
from tvm_ios.plan.schedule_places import placements_at
from tvm_ios.relay.context import reason_of, tvm_pipeline
from tvm_ios.relay.extract import Extraction, extract
from tvm_ios.relay.functions.fused_function import describe_calls
from tvm_ios.relay.graph_json import read_graph_json, with_own_constant_names
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.kernels import absent_symbol, declare_kernels, digest_of_call, lower_kernels
from tvm_ios.relay.stage_ir import flatten, is_partitioned, read_schedule
from tvm_ios.relay.transforms.conversion import require_float32_kernels
from tvm_ios.relay.transforms.pipeline import only_from_fusion
from tvm_ios.search.baselines import sequential_schedule

__all__ = ["StagedBuild", "build", "require_match"]

_LOG = logging.getLogger(__name__)

FINISHED_PASSES = (
    "qnn.Legalize",
    "Legalize",
    "SimplifyInference",
    "DynamicToStatic",
    "EliminateCommonSubexpr",
    "SimplifyExpr",
    "FoldConstant",
    "FoldScaleAxis",
    "CanonicalizeCast",
    "CanonicalizeOps",
    "FlattenAtrousConv",
    "AlterOpLayout",
    "FastMath",
)
"""Graph passes that ``prepare`` has run; run again they cost time, or would alter kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedBuild:
    """Compiled kernels, and the place of every operator in the schedule."""

    factory: GraphExecutorFactoryModule
    graph_json: str
    """Graph in the JSON that TVM's own executors read."""
    graph: KernelGraph
    """Graph of kernels for our lowering."""
    params: dict[str, tvm.nd.NDArray]
    """Constants of the model, by their names in the graph JSON."""
    placements: tuple[Placement, ...]
    """Place of each ``tvm_op`` node, in node order."""
    operator_names: tuple[str, ...]
    """Name of each ``tvm_op`` node, in node order; unique."""
    members: tuple[tuple[str, ...], ...]
    """Names of the operators that each ``tvm_op`` node computes, in node order: several for a
    merged convolution, none for a copy of its slice."""
    kernel_codes: tuple[str, ...]
    """Digest of the code of each ``tvm_op`` node's kernel, in node order; empty where TVM compiled
    it with the module around it, or nobody did."""
    kernel_keys: Mapping[str, str]
    """Digest of everything that a kernel's machine code depends on, by symbol; missing for kernels
    that TVM compiled with the module around them, or that a user's own passes may change. Of an
    absent kernel the digest of its function."""
    lowered: Mapping[str, LoweredKernel]
    """Kernels before code generation, by the digest of their function."""
    absent: frozenset[str]
    """Functions, by digest, whose kernels were left out: an operator library computes them."""
    absent_nodes: frozenset[int]
    """``tvm_op`` nodes of absent functions, by their number in node order."""
    extraction: Extraction
    """Operators that were compiled, merged ones included, in node order."""
    target: tvm.target.Target

    def describe(self) -> Sequence[FusedFunction | None]:
        """Function of each ``tvm_op`` node; None of what no operator library could compute."""
        return describe_calls(self.extraction.calls)


def build(
    module: tvm.IRModule,
    target: Any,
    params: Mapping[str, tvm.nd.NDArray] | None = None,
    *,
    known: Mapping[str, LoweredKernel] | None = None,
    absent: Collection[str] = (),
    extraction: Extraction | None = None,
) -> StagedBuild:
    """Kernels compiled with TVM, under the caller's PassContext and tuning records.

    Parameters
    ----------
    module
        A module prepared, or partitioned; without stages every operator is a stage of its own.
    params
        Parameters that are still inputs; None where all are bound.
    known
        :attr:`StagedBuild.lowered` of an earlier build, under the same PassContext and records.
    absent
        Functions, by digest, that operator libraries will compute: their kernels are declared, and
        nobody lowers or compiles them. Graph, storage and order are as ever.
    extraction
        Operators of the module, if somebody has extracted them; not read where it has stages.

    Raises
    ------
    ModelError
        If the module is not prepared, cannot be compiled, or TVM's graph does not match it operator
        by operator.
    """
    chosen = resolve_target(target)
    if is_partitioned(module):
        flat = flatten(module)
        extraction, placed, schedule = extract(flat.module), flat.kernels, read_schedule(module)
    else:
        extraction = extraction or extract(module)
        schedule = sequential_schedule(extraction.graph)
        placed = kernels_one_by_one(schedule.operator_names)
    if not extraction.calls and extraction.coverage.barriers:
        raise ModelError(f"nothing to build: {extraction.coverage.barriers[0].reason}")
    names = tuple(kernel.name for kernel in placed)
    digests = tuple(map(digest_of_call, extraction.calls))
    kernels = _compile_kernels(extraction, chosen, known, frozenset(digests).intersection(absent))
    factory = _compile(declare_kernels(extraction.module, kernels.symbols), chosen, params)
    import_kernels(factory.lib, kernels.archives)
    graph_json = factory.get_graph_json()
    require_match(graph_json, extraction, names, kernels.symbols)
    return StagedBuild(
        factory=factory,
        graph_json=graph_json,
        graph=read_graph_json(graph_json),
        params=dict(factory.get_params()),
        placements=placements_at(extraction, schedule, placed),
        operator_names=names,
        members=tuple(kernel.members for kernel in placed),
        kernel_codes=tuple(
            kernels.lowered[digest].code if digest in kernels.lowered else "" for digest in digests
        ),
        kernel_keys=kernels.keys,
        lowered=kernels.lowered,
        absent=kernels.absent,
        absent_nodes=frozenset(n for n, digest in enumerate(digests) if digest in kernels.absent),
        extraction=extraction,
        target=chosen,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernels:
    """Compiled kernels of a module, by digest of their function or by symbol."""

    lowered: dict[str, LoweredKernel]
    symbols: dict[str, str]
    archives: dict[str, bytes]
    keys: dict[str, str]
    absent: frozenset[str]


def _compile_kernels(
    extraction: Extraction,
    target: tvm.target.Target,
    known: Mapping[str, LoweredKernel] | None,
    absent: frozenset[str],
) -> _Kernels:
    """Compile each distinct function once, unless it is absent or an earlier build compiled it."""
    lowered: dict[str, LoweredKernel] = {}
    left = {digest: absent_symbol(digest) for digest in absent}
    calls = [call for call in extraction.calls if digest_of_call(call) not in absent]
    with tvm_pipeline(), KernelCompiler(target) as compiler, _explained(target):
        for digest, kernel in lower_kernels(calls, target, known):
            lowered[digest] = kernel
            compiler.add(kernel)
        require_float32_kernels(extraction.module, lowered.values(), target)
        archives = compiler.archives()
        keys, counts = compiler.keys, compiler.counts
    told = f", {len(left)} left to operator libraries" if left else ""
    _LOG.info("kernels: %d compiled, %d from the cache%s", counts.compiled, counts.from_cache, told)
    return _Kernels(
        lowered=lowered,
        symbols={digest: kernel.symbol for digest, kernel in lowered.items()} | left,
        archives=archives,
        keys=keys | {symbol: digest for digest, symbol in left.items()},
        absent=absent,
    )


def _compile(
    module: tvm.IRModule,
    target: tvm.target.Target,
    params: Mapping[str, tvm.nd.NDArray] | None,
) -> GraphExecutorFactoryModule:
    # Instruments watch only the caller's own context, so with them it stays as it is.
    watched = bool(len(PassContext.current().instruments))
    disabled = () if watched else FINISHED_PASSES
    with (
        tvm_pipeline(disabled=disabled, instruments=only_from_fusion()),
        mended_cuda_source(),
        _explained(target),
    ):
        factory = relay.build(module, target=target, params=dict(params or {}))
    return with_own_constant_names(factory)


@contextmanager
def _explained(target: tvm.target.Target) -> Iterator[None]:
    """Context that turns TVM's exceptions into errors of ours."""
    try:
        yield
    # TVM hands on what fails while a kernel is lowered as a bare RuntimeError, as TVMError is one.
    except RuntimeError as error:
        raise ModelError(
            f"TVM cannot compile this module for target {str(target)!r}: {reason_of(error)}"
        ) from error


def require_match(
    graph_json: str,
    extraction: Extraction,
    names: tuple[str, ...],
    symbols: Mapping[str, str],
) -> None:
    """Refuse TVM's graph if its i-th kernel is not our i-th operator.

    ``symbols`` are those of kernels that are declared only, by the digest of their function.
    """
    graph = json.loads(graph_json)
    shapes = graph["attrs"]["shape"][1]
    rows = graph["node_row_ptr"]
    nodes = [
        (node, shapes[rows[index]])
        for index, node in enumerate(graph["nodes"])
        if node["op"] == "tvm_op"
    ]
    if len(nodes) != len(names):
        raise ModelError(
            f"TVM's graph has {len(nodes)} kernels for {len(names)} operators; a pass of the "
            "current PassContext changed the fused module, so build without it"
        )
    for (node, shape), call, name in zip(nodes, extraction.calls, names, strict=True):
        type_ = call.checked_type
        first = type_.fields[0] if isinstance(type_, tvm.ir.TupleType) else type_
        digest = digest_of_call(call)
        known = digest in symbols
        expected = symbols[digest] if known else digest
        found = node["attrs"].get("func_name" if known else "hash")
        if expected not in ("", found) or shape != [int(extent) for extent in first.shape]:
            raise ModelError(
                f"operator {name!r} became node {node['name']!r} of shape {shape} and kernel "
                f"{found}, expected {first} and kernel {expected}; a pass of the current "
                "PassContext changed the fused module, so build without it"
            )
