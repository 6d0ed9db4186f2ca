"""Prices stages of a prepared Relay module on real lanes: the bridge from IR to measured cost.

The module is built once; every stage of one search is then timed with those kernels, on the lanes
the final executor uses. A merge stage needs a kernel the module does not have: it is built when the
search first asks for its price, once per workload.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tvm

from tvm_ios.compiled import BuiltModel, ModelKernels, require_cpu_target
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.measured import MeasureCounters, MeasuredCostModel, MeasureOptions
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.errors import CostError, OptionError
from tvm_ios.host import cached_libinfo, default_lanes, processor_name
from tvm_ios.relay.build import StagedBuild, build
from tvm_ios.relay.context import applied_records_digest
from tvm_ios.relay.merge import merge_stage_module
from tvm_ios.relay.prepare import PreparedModule
from tvm_ios.runtime.graph_json import read_graph_json
from tvm_ios.runtime.lanes import assign_lanes
from tvm_ios.runtime.native_runtime import remote_digest, runtime_digest
from tvm_ios.runtime.remote_device import RemoteDevice, RemoteSession
from tvm_ios.runtime.stage_runner import NativeStageRunner, StageProgram

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
GUESSED_FLOPS_PER_NS = 50
GUESSED_BYTES_PER_NS = 10
FETCHES_AT_ONCE = 10
"""Cache lines a core waits for together when it reads what another core wrote."""
LINE_BYTES = 64
SLOWEST_HOP_NS = 200.0
"""A core-to-core hand-off above this is the machine's slow mode."""
MOST_BYTES_MOVED = 65536
"""The cost of moving more is hidden: prefetchers follow, and the arithmetic takes longer."""


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
    """

    def __init__(
        self, built: BuiltModel, *, lanes: int, session: RemoteSession | None = None
    ) -> None:
        self.built = built
        self.lanes = lanes
        self.session = session
        self._merged: dict[tuple[str, ...], tuple[int, int]] = {}
        self._native = NativeStageRunner(
            lanes, on=None if session is None else session.stage_lanes(lanes)
        )
        self._base_library = self._add(built.kernels)
        self.operator_ns: tuple[int, ...] = tuple(
            1
            + operator.flops // GUESSED_FLOPS_PER_NS
            + operator.memory_bytes // GUESSED_BYTES_PER_NS
            for operator in built.graph.operators
        )
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

    def close(self) -> None:
        """Stop the lanes; a second call does nothing."""
        self._native.close()

    def prepare(self, graph: OperatorGraph, stage: Stage) -> StageProgram:
        """Make a stage ready to run; a merge stage may have to be compiled first."""
        costs_ns = [sum(self.operator_ns[index] for index in group) for group in stage.groups]
        copies = max(1, min(MOST_COPIES, round(LONGEST_PROGRAM_NS / max(1, sum(costs_ns)))))
        if stage.strategy is Strategy.MERGE and len(stage.operators) > 1:
            library, count = self._merged_library(graph, stage.operators)
            merged = [(library, index) for index in range(count)]
            return self._native.prepare([merged], copies=copies)
        groups = [[(self._base_library, index) for index in group] for group in stage.groups]
        unsplit = {
            (self._base_library, index)
            for index in stage.operators
            if graph.operators[index].workload.endswith(UNSPLIT)
        }
        nothing_read: list[dict[int, int]] = [{} for _ in groups]
        homes = assign_lanes([(0, 0)] * len(groups), costs_ns, nothing_read, lanes=self.lanes)
        return self._native.prepare(groups, unsplit=unsplit, homes=homes, copies=copies)

    def time_ns(self, handle: StageProgram, number: int) -> int:
        """Total elapsed time of ``number`` back-to-back runs, in nanoseconds."""
        return self._native.time_ns(handle, number)

    def ping_pong_ns(self) -> float:
        """One core-to-core hand-off between two lanes, in nanoseconds; 0 with a single lane."""
        return self._native.ping_pong_ns()

    def needs_no_kernel(self, operator: int) -> bool:
        """Whether an operator became a view, which depends on the whole graph."""
        return self._native.needs_no_kernel(self._base_library, operator)

    def _merged_library(self, graph: OperatorGraph, members: Sequence[int]) -> tuple[int, int]:
        """The library of a merged stage and its number of operators."""
        key = tuple(graph.operators[index].workload for index in members)
        if key not in self._merged:
            module = merge_stage_module(self.built.extraction, tuple(members))
            with cached_libinfo():
                merged = ModelKernels(build(module, self.built.prepared.target))
            library = self._add(merged, _without_outputs(merged.staged.graph_json))
            self._merged[key] = (library, len(merged.staged.operator_names))
        return self._merged[key]

    def _add(self, kernels: ModelKernels, graph_json: str | None = None) -> int:
        staged = kernels.staged
        views = [placement.view for placement in staged.placements]
        graph_json = graph_json or staged.graph_json
        path = kernels.path if self.session is None else self.session.export(staged.factory)
        return self._native.add_library(path, graph_json, staged.params, views)


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
        self._whole = self._identified = with_kernel_identity(runner)
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
        return self._measured.notes

    def price_operators(self) -> None:
        """Price every operator by itself, with and without the help of idle lanes.

        Operators that gain too little from help stay on one lane from then on: help has to gain
        more than it costs to move half of what the operator reads and writes between the caches of
        two cores, which the price of one operator run again and again does not show.
        """
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
        return replace(schedule, operator_ns=self.operator_ns, unsplit=self.unsplit)

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """Latency of each stage, run by itself, in nanoseconds.

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
        return self._measured.price(self._identified, stages)


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
        A module prepared for a CPU target.
    lanes
        Lanes to price for; the cores this process may use where omitted.
    database
        A profile database or its file; the default file where omitted.
    options
        How a stage is timed.

    Raises
    ------
    ModelError
        If the module cannot be compiled.
    OptionError
        If its target is no CPU, or there are more lanes than cores.
    DatabaseError
        If the database cannot be read.
    """
    require_cpu_target(prepared.target)
    opened = open_database(database)
    with cached_libinfo():
        base = build(prepared.module, prepared.target, prepared.params)
    built = BuiltModel(prepared, ModelKernels(base))
    with RelayStageRunner(built, lanes=default_lanes() if lanes is None else lanes) as runner:
        prices = KernelPrices(runner, database=opened, options=options)
        try:
            yield prices
        finally:
            prices.save()


def profile_context(
    target: tvm.target.Target, lanes: int, device: RemoteDevice | None = None
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
        executor=runtime_digest() if device is None else remote_digest(),
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
