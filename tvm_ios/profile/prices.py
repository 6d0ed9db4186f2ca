"""Prices of stages of a prepared Relay module on real lanes: from IR to measured cost.

The module is built once. Every stage of a search is timed with its kernels, on the lanes of the
final executor. Operators are priced first, in each way to run they have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path

import tvm

from tvm_ios.compile.built_model import BuiltModel, ModelKernels
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, LibraryOperators, Stage
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.known_choices import KnownChoices
from tvm_ios.cost.measured import MeasureCounters, MeasuredStages, MeasureOptions
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.devices.protocol import MeasuringDevice
from tvm_ios.devices.targets import local_device
from tvm_ios.errors import CostError, OptionError
from tvm_ios.host import cached_libinfo
from tvm_ios.kernels.code_generation import compilers, cuda_compiler
from tvm_ios.profile.kernel_variant import (
    VariantGraph,
    by_library,
    with_kernel_identity,
    without_help,
)
from tvm_ios.profile.merge_prices import KernelChoice, MergePrices
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.profile.way_prices import WayPrices, is_short
from tvm_ios.relay.build import build
from tvm_ios.relay.context import applied_records_digest
from tvm_ios.relay.prepare import PreparedModule
from tvm_ios.search.list_schedule import OperatorTimes

__all__ = [
    "KernelPrices",
    "measured_cost_model",
    "open_database",
    "profile_context",
]


class KernelPrices:
    """Prices of stages of one built module; a CostModel for its graph and no other.

    Without a database, prices are kept in memory only.
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
        """Operators that run faster on one lane; set by :meth:`price_operators`."""
        self.operator_ns: tuple[int, ...] = ()
        """Nanoseconds of each operator alone on one lane; set by :meth:`price_operators`."""
        self.fastest_library: dict[int, str] = {}
        """Key of the operator library that is fastest, for operators where one is."""
        self._whole = with_kernel_identity(runner.built, runner.needs_no_kernel)
        able = runner.library_names
        self._kernels = KernelChoice(
            own=self._whole,
            libraries={name: by_library(self._whole, name, able[name]) for name in able},
            chosen=self._whole,
        )
        context = profile_context(runner.built.prepared.target, runner.lanes, runner.session.device)
        libraries = (library.identity() for library in runner.built.libraries)
        calls = [each.fingerprint() for each in self._kernels.libraries.values()]
        self.identity = " with ".join((self._whole.fingerprint(), *libraries, *calls))
        """Text that names the graph, the code of its kernels, and the operator libraries that may
        compute in their place, with their calls."""
        self.choices = KnownChoices(database, context)
        """Choices that were made before under the conditions of these prices."""
        self._measured = MeasuredStages(
            runner,
            context,
            options=options,
            database=database,
            patience=runner.session.patience,
        )
        self._on_batch = on_batch
        self._merges = MergePrices(runner.built, self._measured, able)
        self.ways = WayPrices(runner, self._whole, self._measured, on_batch)
        """Prices of single operators by each way to compute them."""

    @property
    def counters(self) -> MeasureCounters:
        """Counts and seconds of all pricing so far."""
        return self._measured.counters

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines that a reader of the prices ought to know; empty when all went well."""
        return (*self._measured.notes, *self._library_notes(), *self.runner.notes)

    def price_operators(self) -> None:
        """Price every operator by itself in each way, and choose the fastest."""
        self.ways.measure()
        fastest = [self.ways.fastest_by(index) for index in range(len(self._whole))]
        self.use(
            {index: by for index, by in enumerate(fastest) if by is not None},
            (index for index, by in enumerate(fastest) if self.ways.way(index, by).whole),
        )

    def use(self, libraries: Mapping[int, str], unsplit: Iterable[int]) -> None:
        """Have libraries, by their keys, compute some operators, and keep some on one lane.

        Operators must have been priced; later prices are under this choice.
        """
        self.fastest_library = dict(libraries)
        self.runner.operator_ns = self.operator_ns = tuple(
            self.ways.way(index, libraries.get(index)).alone_ns for index in range(len(self._whole))
        )
        self.keep_whole(unsplit)

    def keep_whole(self, operators: Iterable[int]) -> None:
        """Keep some operators on one lane; later prices are under this choice."""
        self.unsplit = tuple(sorted(operators))
        able = self.runner.library_names
        self._kernels = KernelChoice(
            own=without_help(self._whole, self.unsplit),
            libraries={
                name: without_help(by_library(self._whole, name, able[name]), self.unsplit)
                for name in able
            },
            chosen=without_help(self._with_libraries(), self.unsplit),
        )

    @property
    def own_ratio(self) -> float:
        """Time of all operators with TVM's kernels, over that in their fastest ways."""
        places = range(len(self.graph))
        own_ns = sum(self.ways.way(index, None).price_ns for index in places)
        return own_ns / sum(self.ways.way(i, self.ways.fastest_by(i)).price_ns for i in places)

    @property
    def short(self) -> tuple[int, ...]:
        """Operators so short that help may cost more than it gains; all of them before pricing."""
        costs_ns = self.operator_ns or (0,) * len(self._whole)
        return tuple(index for index, cost_ns in enumerate(costs_ns) if is_short(cost_ns))

    def save(self) -> None:
        """Try again to store prices that could not be written."""
        self._measured.save()

    def annotate(self, schedule: InterOpSchedule) -> InterOpSchedule:
        """Schedule with times, lanes and libraries of single operators, as prices chose them.

        A list has its own choice of operators on one lane.
        """
        return replace(
            schedule,
            operator_ns=self.operator_ns,
            unsplit=schedule.unsplit if schedule.home_lanes else self.unsplit,
            libraries=self._libraries_of(schedule) if self._chose_libraries else None,
        )

    def known_ns(self, schedule: InterOpSchedule) -> tuple[int | None, ...]:
        """Prices of a schedule's stages in nanoseconds; None where nobody asked for one yet.

        Merges were priced before they came into the schedule. Rows of a list are its operators one
        by one, each with or without help, as in the list.
        """
        if schedule.home_lanes:
            return self._rows_ns(schedule)
        known = [stage for stage in schedule.stages if self._is_known(stage)]
        known_ns = dict(zip(known, self.price(self.graph, known), strict=True))
        return tuple(known_ns.get(stage) for stage in schedule.stages)

    def operator_times(self, schedule: InterOpSchedule) -> OperatorTimes:
        """Times of single operators and of a schedule's merges, as priced.

        An operator without a kernel takes 0 here; as a price of its own it has a nanosecond.
        """
        merges = [stage for stage in schedule.stages if stage.is_merge]
        singles = [Stage(((index,),)) for index in range(len(self.graph))]
        return OperatorTimes(
            alone_ns=tuple(
                0 if self.runner.needs_no_kernel(index) else alone_ns
                for index, alone_ns in enumerate(self.operator_ns)
            ),
            helped_ns=self.price(self.graph, singles),
            merged_ns=dict(zip(merges, self.price(self.graph, merges), strict=True)),
        )

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """Latency that each stage adds to a network, in nanoseconds.

        A concurrent stage is measured by itself. Once operators are priced, several groups cost
        more by ``concurrency_overhead_percent`` of their long operators' work, which idle lanes
        would help with. Where idle lanes help, one group of several operators, and all groups on
        one lane, cost the sum of their operators, since they run so; timed again and again by
        themselves they would find more in the caches than in a network. The price of a merge stage,
        at least 1, includes its effects on operators around it.
        """
        if graph is not self.graph and graph.fingerprint() != self.graph.fingerprint():
            raise CostError(
                f"graph {graph.name!r} (fingerprint {graph.fingerprint()}) is not the one these "
                f"kernels were built for ({self.graph.fingerprint()}); build and price the same "
                "module"
            )
        parts = {stage: self._measured_as(stage) for stage in stages if not stage.is_merge}
        measured = list(dict.fromkeys(chain.from_iterable(parts.values())))
        asked = [[(self._kernels.chosen, part)] for part in measured]
        priced_ns = self._measured.price(asked, on_batch=self._on_batch)
        measured_ns = dict(zip(measured, priced_ns, strict=True))
        long_ns = self._long_ns()
        prices = {
            stage: self._in_network_ns(stage, sum(map(measured_ns.__getitem__, row)), long_ns)
            for stage, row in parts.items()
        }
        merges = [stage for stage in stages if stage.is_merge]
        prices |= self._merges.price(self._kernels, merges)
        return [prices[stage] for stage in stages]

    def lower_bound(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """Lower bound of each stage's price in nanoseconds: its work, once operators are priced.

        A lane is a core, so lanes together do no more at a time than each does alone, with groups
        of their own or parts of one operator. The bound is 0 where idle lanes do not help, since
        streams share what a kernel leaves over, and for merges, which change the work.
        """
        del graph
        if not self.runner.idle_lanes_help or not self.operator_ns:
            return [0] * len(stages)
        long_ns = self._long_ns()
        return [
            0
            if stage.is_merge
            else self._in_network_ns(
                stage,
                sum(self.operator_ns[index] for index in stage.operators) // self.runner.lanes,
                long_ns,
            )
            for stage in stages
        ]

    def floors(
        self, graph: OperatorGraph, stages: Sequence[Stage], prices_ns: Sequence[int]
    ) -> Sequence[int]:
        """Floors of stages in nanoseconds: no stage that contains one of them costs less.

        A merge stage with more members may be a concatenation, or need no copies any more, and cost
        less for that.
        """
        del graph
        return [
            max(0, self._merges.floor_ns(self._kernels, stage, price_ns))
            for stage, price_ns in zip(stages, prices_ns, strict=True)
        ]

    def _measured_as(self, stage: Stage) -> Sequence[Stage]:
        """Stages whose times add up to the time of a stage without merges."""
        overlaps = len(stage.groups) > 1 and self.runner.lanes > 1
        if overlaps or not self.runner.idle_lanes_help:
            return [stage]
        return [Stage(((index,),)) for index in stage.operators]

    def _rows_ns(self, schedule: InterOpSchedule) -> tuple[int, ...]:
        """Times of the rows of a list in nanoseconds; their operators were priced."""
        times = self.operator_times(schedule)
        unsplit = set(schedule.unsplit)
        each_ns = [
            times.alone_ns[index] if index in unsplit else times.helped_ns[index]
            for index in range(len(self.graph))
        ]
        return tuple(
            times.merged_ns[row] if row.is_merge else sum(each_ns[i] for i in row.operators)
            for row in schedule.stages
        )

    def _is_known(self, stage: Stage) -> bool:
        """True if a price needs no measurement; a merge was priced before it was put somewhere."""
        chosen = self._kernels.chosen
        return stage.is_merge or all(
            self._measured.record(chosen, part) is not None for part in self._measured_as(stage)
        )

    def _long_ns(self) -> Sequence[int]:
        """Nanoseconds on one lane of each long operator that idle lanes help with; else 0."""
        unsplit = set(self.unsplit)
        costs_ns = self.operator_ns or (0,) * len(self.graph)
        return [
            0 if index in unsplit or is_short(cost_ns) else cost_ns
            for index, cost_ns in enumerate(costs_ns)
        ]

    def _in_network_ns(self, stage: Stage, alone_ns: int, long_ns: Sequence[int]) -> int:
        """Price in a network of a stage without merges, with an overhead for its long operators."""
        if len(stage.groups) == 1:
            return alone_ns
        work_ns = sum(long_ns[index] for index in stage.operators)
        percent = self.runner.concurrency_overhead_percent
        return alone_ns + percent * work_ns // (100 * self.runner.lanes)

    @property
    def _chose_libraries(self) -> bool:
        return bool(self.runner.library_names and self.operator_ns)

    def _with_libraries(self) -> VariantGraph:
        """Graph with those calls of operator libraries that are the fastest."""
        chosen = self._whole
        for library, names in self.runner.library_names.items():
            faster = {i: n for i, n in names.items() if self.fastest_library.get(i) == library}
            chosen = by_library(chosen, library, faster)
        return chosen

    def _libraries_of(self, schedule: InterOpSchedule) -> tuple[LibraryOperators, ...]:
        """Operators for each operator library: single operators, and merges as wholes."""
        owner: dict[int, str | None] = {}
        for stage in schedule.stages:
            merged = self._merges.fastest_library(self._kernels, stage)
            for index in stage.operators:
                owner[index] = merged if stage.is_merge else self.fastest_library.get(index)
        return tuple(
            LibraryOperators(library, tuple(sorted(i for i in owner if owner[i] == library)))
            for library in self.runner.library_names
        )

    def _library_notes(self) -> tuple[str, ...]:
        """Number of operators that are faster by each library, as text; empty before pricing."""
        if not self._chose_libraries:
            return ()
        titles = self.runner.libraries.titles()
        counts = Counter(self.fastest_library.values())
        return tuple(
            f"by itself, {counts[library]} of the {len(names)} operators that {titles[library]} "
            "can compute are fastest so"
            for library, names in self.runner.library_names.items()
        )


@contextmanager
def measured_cost_model(
    prepared: PreparedModule,
    *,
    lanes: int | None = None,
    database: ProfileDatabase | str | Path | None = None,
    options: MeasureOptions | None = None,
) -> Iterator[KernelPrices]:
    """Build a module prepared for this machine's CPU or GPU, and price its stages there.

    ``lanes`` are those of :func:`tvm_ios.tune`, and the database is that of :func:`open_database`.
    """
    device = local_device(prepared.target)
    chosen_lanes = device.require_lanes(lanes)
    opened = open_database(database)
    with cached_libinfo():
        base = build(prepared.module, prepared.target, prepared.params)
    built = BuiltModel(prepared, ModelKernels(base))
    with (
        device.open() as session,
        RelayStageRunner(built, lanes=chosen_lanes, session=session) as runner,
    ):
        prices = KernelPrices(runner, database=opened, options=options)
        try:
            yield prices
        finally:
            prices.save()


def profile_context(
    target: tvm.target.Target, lanes: int, device: MeasuringDevice
) -> ProfileContext:
    """Conditions of all prices of one search, besides the stages."""
    versions = (*compilers(), *([cuda_compiler()] if target.kind.name == "cuda" else []))
    return ProfileContext(
        device=device.name,
        lanes=lanes,
        tvm_version=" ".join(versions),
        kernels=f"{target} {applied_records_digest()}".rstrip(),
        executor=device.executor_digest,
    )


def open_database(database: ProfileDatabase | str | Path | None) -> ProfileDatabase:
    """Readable profile database: the one given, the file given, or the default file."""
    if not isinstance(database, ProfileDatabase | str | Path | None):
        raise OptionError(f"database is {database!r}; give a ProfileDatabase, a file, or None")
    opened = database if isinstance(database, ProfileDatabase) else ProfileDatabase(database)
    opened.count()
    return opened
