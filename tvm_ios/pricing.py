"""Prices stages of a prepared Relay module on real lanes: the bridge from IR to measured cost.

The module is built once; every stage of one search is then timed with those kernels, on the lanes
the final executor uses. A merge stage needs a kernel the module does not have: it is built when the
search first asks for its price, once per workload. Its price is that of the stage, and of each
kernel that others need because of it, less that of each kernel they need no more: concatenations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tvm

from tvm_ios.compiled import BuiltModel, ModelKernels
from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.measured import MeasureCounters, MeasuredCostModel, MeasureOptions
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.cudnn_pricing import CudnnKernels, by_cudnn, runs_by_cudnn
from tvm_ios.errors import CostError, OptionError
from tvm_ios.host import cached_libinfo, processor_name, read_clocks
from tvm_ios.merge_pricing import APART, COPIED, MergeSurroundings, is_merge, with_slices
from tvm_ios.relay.build import StagedBuild, build
from tvm_ios.relay.context import applied_records_digest
from tvm_ios.relay.merge import merge_stage_module, stage_outputs
from tvm_ios.relay.prepare import PreparedModule
from tvm_ios.runtime.cuda_stages import CudaStageRunner
from tvm_ios.runtime.gpu_session import GpuSession
from tvm_ios.runtime.graph_json import operator_alone, read_graph_json
from tvm_ios.runtime.lanes import assign_lanes
from tvm_ios.runtime.measuring import MeasuringDevice, MeasuringSession, session_on
from tvm_ios.runtime.merge_effects import MergeEffects, View
from tvm_ios.runtime.native_runtime import runtime_digest
from tvm_ios.runtime.remote_device import RemoteSession
from tvm_ios.runtime.stage_runner import LibraryStageRunner, NativeStageRunner
from tvm_ios.targets import gpu_of, require_lanes

__all__ = [
    "KernelPrices",
    "RelayStageRunner",
    "measured_cost_model",
    "open_database",
    "profile_context",
    "with_kernel_identity",
    "without_help",
]

UNSPLIT = "@one-lane"
"""Ends the workload of an operator that idle lanes do not help with."""
MOST_COPIES = 8
"""A short stage is timed this many times in one program; see :class:`NativeStageRunner`."""
LONGEST_PROGRAM_NS = 400_000
"""Fewer copies where they would take longer than this."""
FETCHES_AT_ONCE = 10
"""Cache lines a core waits for together when it reads what another core wrote."""
LINE_BYTES = 64
SLOWEST_HOP_NS = 200.0
"""A core-to-core hand-off above this is the machine's slow mode."""
MOST_BYTES_MOVED = 65536
"""The cost of moving more is hidden: prefetchers follow, and the arithmetic takes longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """What a device does with one operator, roughly: enough to choose lanes and copies."""

    flops_per_ns: int
    bytes_per_ns: int
    least_ns: int

    def guess_ns(self, operator: Operator) -> int:
        return (
            self.least_ns
            + operator.flops // self.flops_per_ns
            + operator.memory_bytes // self.bytes_per_ns
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Merged:
    """The compiled kernels of a merge stage."""

    library: int
    cudnn_library: int
    """The same, the convolution by cuDNN where it can."""
    num_operators: int


CORE = _Rates(flops_per_ns=50, bytes_per_ns=10, least_ns=1)
GPU = _Rates(flops_per_ns=5000, bytes_per_ns=1000, least_ns=3000)


class RelayStageRunner:
    """Runs any stage of one built module natively; a StageRunner for the measured cost model.

    A context manager: leaving it stops the lanes.

    Parameters
    ----------
    built
        The module and its kernels.
    lanes
        Lanes the stages run on.
    session
        The device they run on; this machine where omitted.
    database
        Where algorithms of cuDNN are kept, for models that may use it.
    """

    def __init__(
        self,
        built: BuiltModel,
        *,
        lanes: int,
        session: MeasuringSession | None = None,
        database: ProfileDatabase | None = None,
    ) -> None:
        self.built = built
        self.lanes = lanes
        self.session = session
        self._merged: dict[tuple[tuple[str, bool], ...], _Merged] = {}
        self._apart: dict[int, int] = {}
        self._on_gpu = isinstance(session, GpuSession)
        self._notes: tuple[str, ...] = ()
        self._native: LibraryStageRunner = (
            NativeStageRunner(lanes) if session is None else session.stage_runner(lanes)
        )
        self._base_library = self._add(built.kernels)
        self.cudnn = self._cudnn_kernels(database)
        """Calls of cuDNN in place of kernels; None where they are not to be tried."""
        self.cudnn_names: dict[int, str] = {}
        """Operators that cuDNN can compute, and what such a kernel is called."""
        self._cudnn_library = self._base_library
        if self.cudnn is not None:
            added = self.cudnn.add(self._base_library, built.extraction.calls)
            self._cudnn_library, self.cudnn_names = added
        rates = GPU if self._on_gpu else CORE
        self.operator_ns: tuple[int, ...] = tuple(map(rates.guess_ns, built.graph.operators))
        """What each operator costs alone on one lane, a guess until it was priced; decides which
        lane gets which group, and how many copies are timed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the prices ought to know, once the runner is closed."""
        return self._notes

    @property
    def idle_lanes_help(self) -> bool:
        """Whether a long operator is faster where other lanes are idle."""
        return not self._on_gpu

    def close(self) -> None:
        """Stop the lanes; a second call does nothing."""
        if isinstance(self.session, GpuSession) and not self._notes:
            clocks = read_clocks(self.session.bus_id)
            unknown = "the GPU's clocks are not known: nvidia-smi does not tell"
            told = unknown if clocks is None else f"after pricing: {clocks.as_text()}"
            self._notes = (told, *self._native.notes())
        self._native.close()

    def prepare(self, graph: OperatorGraph, stage: Stage) -> Any:
        """Make a stage ready to run; a merge stage may have to be compiled first."""
        costs_ns = [sum(self.operator_ns[index] for index in group) for group in stage.groups]
        copies = max(1, min(MOST_COPIES, round(LONGEST_PROGRAM_NS / max(1, sum(costs_ns)))))
        if is_merge(stage):
            made = self._merged_library(graph, stage)
            all_by_cudnn = all(runs_by_cudnn(graph, index) for index in stage.operators)
            library = made.cudnn_library if all_by_cudnn else made.library
            merged = [(library, index) for index in range(made.num_operators)]
            return self._native.prepare([merged], copies=copies)
        place = {index: self._place(graph, index) for index in stage.operators}
        groups = [[place[index] for index in group] for group in stage.groups]
        unsplit = {
            place[index]
            for index in stage.operators
            if graph.operators[index].workload.endswith(UNSPLIT)
        }
        nothing_read: list[dict[int, int]] = [{} for _ in groups]
        homes = assign_lanes([(0, 0)] * len(groups), costs_ns, nothing_read, lanes=self.lanes)
        return self._native.prepare(groups, unsplit=unsplit, homes=homes, copies=copies)

    def time_ns(self, handle: Any, number: int) -> int:
        """Total elapsed time of ``number`` back-to-back runs, in nanoseconds."""
        return self._native.time_ns(handle, number)

    def ping_pong_ns(self) -> float:
        """One core-to-core hand-off between two lanes, in nanoseconds; 0 with a single lane."""
        return self._native.ping_pong_ns()

    def needs_no_kernel(self, operator: int) -> bool:
        """Whether an operator became a view, which depends on the whole graph."""
        return self._native.needs_no_kernel(self._base_library, operator)

    def _place(self, graph: OperatorGraph, index: int) -> tuple[int, int]:
        """The library of an operator, and its number there."""
        if runs_by_cudnn(graph, index):
            return self._cudnn_library, index
        if APART not in graph.operators[index].workload:
            return self._base_library, index
        if index not in self._apart:
            kernels = self.built.kernels
            graph_json = operator_alone(kernels.staged.graph_json, index)
            self._apart[index] = self._add(kernels, graph_json, [None])
        return self._apart[index], 0

    def _merged_library(self, graph: OperatorGraph, stage: Stage) -> _Merged:
        """The kernels of a merged stage, the same for all kernels that its members have alone."""
        members = [group[0] for group in stage.groups]
        plain = self.built.graph.operators
        key = tuple(
            (plain[index].workload, graph.operators[index].workload.endswith(COPIED))
            for index in members
        )
        if key not in self._merged:
            module = merge_stage_module(self.built.extraction, members)
            with cached_libinfo():
                merged = ModelKernels(build(module, self.built.prepared.target))
            convolution, *slices = merged.staged.placements
            sliced = stage_outputs(self.built.extraction, members).sliced
            views = [convolution.view] + [
                None if graph.operators[member].workload.endswith(COPIED) else slice_.view
                for member, slice_ in zip(sliced, slices, strict=True)
            ]
            library = self._add(merged, _without_outputs(merged.staged.graph_json), views)
            cudnn_library = library
            if self.cudnn is not None:
                cudnn_library, _ = self.cudnn.add(library, merged.staged.extraction.calls)
            self._merged[key] = _Merged(
                library=library,
                cudnn_library=cudnn_library,
                num_operators=len(merged.staged.operator_names),
            )
        return self._merged[key]

    def _cudnn_kernels(self, database: ProfileDatabase | None) -> CudnnKernels | None:
        offload = self.built.offload
        if offload is None or not isinstance(self.session, GpuSession):
            return None
        assert isinstance(self._native, CudaStageRunner)
        return CudnnKernels(self._native, self.session.cudnn(database), offload)

    def _add(
        self,
        kernels: ModelKernels,
        graph_json: str | None = None,
        views: Sequence[View] | None = None,
    ) -> int:
        staged = kernels.staged
        if views is None:
            views = [placement.view for placement in staged.placements]
        path = kernels.path
        if isinstance(self.session, RemoteSession):
            path = self.session.export(staged.factory)
        return self._native.add_library(path, graph_json or staged.graph_json, staged.params, views)


def _without_outputs(graph_json: str) -> str:
    """The graph of a merged stage with its input for an output.

    Inside a network the slices of the merged convolution are views, which outputs cannot be.
    """
    graph = json.loads(graph_json)
    graph["heads"] = [[graph["arg_nodes"][0], 0, 0]]
    return json.dumps(graph)


def with_kernel_identity(runner: RelayStageRunner) -> OperatorGraph:
    """The graph of a built model, with the code of each kernel in its workload.

    Tuning records and pass options give one workload different kernels, and the graph around a
    concatenation decides whether it needs a kernel at all: no price may outlive that.
    """
    graph = runner.built.graph
    codes = _kernel_codes(runner.built.kernels.staged)
    return OperatorGraph(
        graph.name,
        tuple(
            replace(
                operator,
                workload=f"{operator.workload}@"
                + ("view" if runner.needs_no_kernel(index) else codes[index]),
            )
            for index, operator in enumerate(graph.operators)
        ),
    )


def without_help(graph: OperatorGraph, operators: Collection[int]) -> OperatorGraph:
    """The graph with these operators marked to run on one lane each."""
    chosen = frozenset(operators)
    return OperatorGraph(
        graph.name,
        tuple(
            replace(operator, workload=operator.workload + UNSPLIT) if index in chosen else operator
            for index, operator in enumerate(graph.operators)
        ),
    )


def _kernel_codes(base: StagedBuild) -> list[str]:
    digests = {}
    for symbol, info in base.factory.function_metadata.items():
        hashes = [tvm.ir.structural_hash(code) & (2**64 - 1) for code in _code_of(info)]
        digests[str(symbol)] = "+".join(f"{value:016x}" for value in sorted(hashes))
    operators = read_graph_json(base.graph_json).operators
    return [digests.get(operator.kernel or "", "") for operator in operators]


def _code_of(info: Any) -> list[Any]:
    return [function for _, function in info.tir_primfuncs.items()]


class KernelPrices:
    """Prices stages of one built module; a CostModel for its graph and no other.

    Parameters
    ----------
    runner
        What runs the stages.
    database
        Where prices are kept; None keeps them in memory only.
    options
        How a stage is timed.
    on_batch
        Called after each measured batch; for progress.
    """

    def __init__(
        self,
        runner: RelayStageRunner,
        *,
        database: ProfileDatabase | None = None,
        options: MeasureOptions | None = None,
        on_batch: Callable[[MeasureCounters], None] | None = None,
    ) -> None:
        self.runner = runner
        self.graph = runner.built.graph
        self.database_path = None if database is None else database.path
        self.unsplit: tuple[int, ...] = ()
        """Operators found to run faster on one lane; set by :meth:`price_operators`."""
        self.operator_ns: tuple[int, ...] = ()
        """What each operator costs alone on one lane; set by :meth:`price_operators`."""
        self.cudnn: tuple[int, ...] | None = None
        """Operators found to run faster by cuDNN; None where that is not to be tried."""
        self._whole = self._identified = with_kernel_identity(runner)
        names = runner.cudnn_names
        self._by_cudnn = by_cudnn(self._whole, self.graph, names, names)
        self._surroundings = MergeSurroundings(runner.built.kernels.staged)
        self._measured = MeasuredCostModel(
            runner,
            profile_context(
                runner.built.prepared.target,
                runner.lanes,
                None if runner.session is None else runner.session.device,
            ),
            options=options,
            database=database,
            on_batch=on_batch,
        )

    @property
    def counters(self) -> MeasureCounters:
        """What pricing has cost so far."""
        return self._measured.counters

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the prices ought to know; empty when all went well."""
        return (*self._measured.notes, *self._cudnn_notes(), *self.runner.notes)

    def price_operators(self) -> None:
        """Price every operator by itself, with and without the help of idle lanes.

        Operators that gain too little from help stay on one lane from then on: help has to gain
        more than it costs to move half of what the operator reads and writes between the caches of
        two cores, which the price of one operator run again and again does not show.

        On a GPU nothing helps, and they are priced with the kernels they may have.
        """
        if not self.runner.idle_lanes_help:
            self._choose_kernels()
            return
        alone = without_help(self._whole, range(len(self._whole)))
        singles = [Stage(((index,),)) for index in range(len(self._whole))]
        helped_ns = self._measured.price(self._whole, singles)
        alone_ns = self._measured.price(alone, singles)
        # The best of a few, and never the slow mode's: the choice must not depend on the moment.
        hop_ns = min(SLOWEST_HOP_NS, *(self.runner.ping_pong_ns() for _ in range(5)))
        fetch_ns = hop_ns / (LINE_BYTES * FETCHES_AT_ONCE)
        self.runner.operator_ns = self.operator_ns = tuple(alone_ns)
        self.keep_whole(
            index
            for index, operator in enumerate(self._whole.operators)
            if alone_ns[index] - helped_ns[index]
            <= min(operator.memory_bytes / 2, MOST_BYTES_MOVED) * fetch_ns
        )

    def keep_whole(self, operators: Iterable[int]) -> None:
        """Let idle lanes leave these operators alone; later prices assume that."""
        self.unsplit = tuple(sorted(operators))
        self._identified = without_help(self._whole, self.unsplit)

    def save(self) -> None:
        """Try once more to store prices that could not be written."""
        self._measured.save()

    def annotate(self, schedule: InterOpSchedule) -> InterOpSchedule:
        """The schedule with what was found of single operators."""
        cudnn = self.cudnn
        if cudnn is not None:
            alone = {i for s in schedule.stages if not is_merge(s) for i in s.operators}
            merged = {i for s in schedule.stages if self._merges_by_cudnn(s) for i in s.operators}
            cudnn = tuple(sorted((alone & set(cudnn)) | merged))
        return replace(schedule, operator_ns=self.operator_ns, unsplit=self.unsplit, cudnn=cudnn)

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """Latency of each stage, run by itself, in nanoseconds.

        That of a merge stage has what it does to the operators around it in it, and is at least 1.

        Raises
        ------
        CostError
            If the graph is another one than was built, or a stage cannot be run.
        """
        if graph is not self.graph and graph.fingerprint() != self.graph.fingerprint():
            raise CostError(
                f"graph {graph.name!r} (fingerprint {graph.fingerprint()}) is not the one these "
                f"kernels were built for ({self.graph.fingerprint()}); build and price the same "
                "module"
            )
        plain = [stage for stage in stages if not is_merge(stage)]
        prices = dict(zip(plain, self._measured.price(self._identified, plain), strict=True))
        prices |= self._price_merges([stage for stage in stages if is_merge(stage)])
        return [prices[stage] for stage in stages]

    def floors(
        self, graph: OperatorGraph, stages: Sequence[Stage], prices_ns: Sequence[int]
    ) -> Sequence[int]:
        """What no stage that contains one of these costs less than, in nanoseconds.

        A merge stage with more members may be a concatenation, or need no copies any more, and cost
        less for that.

        Parameters
        ----------
        graph, stages
            As for :meth:`price`.
        prices_ns
            The price of each stage.
        """
        del graph
        return [
            max(0, self._floor_ns(stage, price_ns))
            for stage, price_ns in zip(stages, prices_ns, strict=True)
        ]

    def _price_merges(self, stages: Sequence[Stage]) -> dict[Stage, int]:
        batches: dict[tuple[int, ...], list[Stage]] = {}
        for stage in stages:
            batches.setdefault(self._effects(stage).copied, []).append(stage)
        measured_ns: dict[Stage, int] = {}
        for copied, batch in batches.items():
            measured_ns |= self._price_merged(self._by_tvm, copied, batch)
            able = [stage for stage in batch if self._can_merge_by_cudnn(stage)]
            for stage, price_ns in self._price_merged(self._by_cudnn, copied, able).items():
                measured_ns[stage] = min(measured_ns[stage], price_ns)
        return {stage: max(1, measured_ns[stage] + self._around_ns(stage)) for stage in stages}

    def _price_merged(
        self, graph: OperatorGraph, copied: tuple[int, ...], stages: Sequence[Stage]
    ) -> dict[Stage, int]:
        prices_ns = self._measured.price(with_slices(graph, copied), stages)
        return dict(zip(stages, prices_ns, strict=True))

    def _can_merge_by_cudnn(self, stage: Stage) -> bool:
        """Whether a merge stage has a price by cuDNN: what computes each member computes all."""
        return is_merge(stage) and self.runner.cudnn_names.keys() >= set(stage.operators)

    def _merges_by_cudnn(self, stage: Stage) -> bool:
        """Whether cuDNN is the faster one for a merge stage."""
        if not self._can_merge_by_cudnn(stage):
            return False
        copied = self._effects(stage).copied
        own_ns, their_ns = (
            self._price_merged(graph, copied, [stage])[stage]
            for graph in (self._by_tvm, self._by_cudnn)
        )
        return their_ns < own_ns

    @property
    def _by_tvm(self) -> OperatorGraph:
        """The graph with no call of cuDNN."""
        return without_help(self._whole, self.unsplit)

    def _choose_kernels(self) -> None:
        """Price every operator by itself with each kernel it may have; the faster one stays."""
        stages = [Stage(((index,),)) for index in range(len(self._whole))]
        prices_ns = list(self._measured.price(self._whole, stages))
        able = sorted(self.runner.cudnn_names)
        theirs_ns = self._measured.price(self._by_cudnn, [stages[index] for index in able])
        faster = {
            index: price_ns
            for index, price_ns in zip(able, theirs_ns, strict=True)
            if price_ns < prices_ns[index]
        }
        for index, price_ns in faster.items():
            prices_ns[index] = price_ns
        self.runner.operator_ns = self.operator_ns = tuple(prices_ns)
        self._identified = by_cudnn(self._whole, self.graph, self.runner.cudnn_names, faster)
        if self.runner.cudnn is not None:
            self.cudnn = tuple(sorted(faster))

    def _cudnn_notes(self) -> tuple[str, ...]:
        if self.runner.cudnn is None or self.cudnn is None:
            return ()
        return (
            f"by itself, {len(self.cudnn)} of the {len(self.runner.cudnn_names)} convolutions that "
            f"{self.runner.cudnn.as_text()} can compute are faster so than by TVM's kernel",
        )

    def _floor_ns(self, stage: Stage, price_ns: int) -> int:
        if not is_merge(stage) and len(stage.operators) > 1:
            return price_ns  # only merges are cheaper by what is around them
        wholes = self._surroundings.could_be_whole(stage.operators[0])
        if not is_merge(stage):
            return price_ns - self._kernels_ns(self._identified, wholes)
        if wholes and self._effects(stage).copied:
            return 0
        around_ns = self._around_ns(stage) + self._kernels_ns(self._identified, wholes)
        return price_ns - around_ns

    def _around_ns(self, stage: Stage) -> int:
        """What a merge stage adds to the prices of other operators."""
        effects = self._effects(stage)
        return self._kernels_ns(self._apart(effects.added), effects.added) - self._kernels_ns(
            self._identified, effects.removed
        )

    def _kernels_ns(self, graph: OperatorGraph, operators: Iterable[int]) -> int:
        """The price of operators, each run by itself; views cost nothing."""
        return sum(self._measured.price(graph, [Stage(((index,),)) for index in operators]))

    def _apart(self, operators: Collection[int]) -> OperatorGraph:
        """The graph with the kernels of these operators in the place of views."""
        if not operators:
            return self._identified
        plain = self.graph.operators
        graph = OperatorGraph(
            self.graph.name,
            tuple(
                replace(operator, workload=f"{plain[index].workload}@{self._codes[index]}{APART}")
                if index in operators
                else operator
                for index, operator in enumerate(self._whole.operators)
            ),
        )
        return without_help(graph, self.unsplit)

    def _effects(self, stage: Stage) -> MergeEffects:
        return self._surroundings.effects([group[0] for group in stage.groups])

    @cached_property
    def _codes(self) -> list[str]:
        return _kernel_codes(self.runner.built.kernels.staged)


@contextmanager
def measured_cost_model(
    prepared: PreparedModule,
    *,
    lanes: int | None = None,
    database: ProfileDatabase | str | Path | None = None,
    options: MeasureOptions | None = None,
) -> Iterator[KernelPrices]:
    """Build a prepared module and price its stages on this machine.

    Parameters
    ----------
    prepared
        A module prepared for a CPU, or for a GPU of this machine.
    lanes
        Lanes to price for, as for :func:`tvm_ios.tune`.
    database
        A profile database or its file; the default file where omitted.
    options
        How a stage is timed.

    Raises
    ------
    ModelError
        If the module cannot be compiled.
    OptionError
        If its target is neither, or there are more lanes than cores.
    HostError
        If there is no such GPU.
    DatabaseError
        If the database cannot be read.
    """
    device = gpu_of(prepared.target)
    chosen_lanes = require_lanes(lanes, device)
    opened = open_database(database)
    with cached_libinfo():
        base = build(prepared.module, prepared.target, prepared.params)
    built = BuiltModel(prepared, ModelKernels(base))
    with (
        session_on(device) as session,
        RelayStageRunner(built, lanes=chosen_lanes, session=session) as runner,
    ):
        prices = KernelPrices(runner, database=opened, options=options)
        try:
            yield prices
        finally:
            prices.save()


def profile_context(
    target: tvm.target.Target, lanes: int, device: MeasuringDevice | None = None
) -> ProfileContext:
    """What all prices of one search depend on besides the stages.

    Parameters
    ----------
    target, lanes
        What kernels are compiled for, and how many lanes run them.
    device
        Where they run; this machine where omitted.
    """
    return ProfileContext(
        device=processor_name() if device is None else device.name,
        lanes=lanes,
        tvm_version=tvm.__version__,
        kernels=f"{target} {applied_records_digest()}".rstrip(),
        executor=runtime_digest() if device is None else device.executor_digest,
    )


def open_database(database: ProfileDatabase | str | Path | None) -> ProfileDatabase:
    """A profile database that can be read: the one given, the file given, or the default file.

    Raises
    ------
    DatabaseError
        If the file is damaged, foreign, or not accessible.
    """
    if not isinstance(database, ProfileDatabase | str | Path | None):
        raise OptionError(f"database is {database!r}; give a ProfileDatabase, a file, or None")
    opened = database if isinstance(database, ProfileDatabase) else ProfileDatabase(database)
    opened.count()
    return opened
