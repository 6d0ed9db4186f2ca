"""Prices stages of a prepared Relay module on real lanes: the bridge from IR to measured cost.

The module is built once; every stage of one search is then timed with those kernels, on the lanes
the final executor uses. Operators are priced first, with each way to run that they have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import tvm

from tvm_ios.compile.model import BuiltModel, ModelKernels
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, LibraryOperators, Stage
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.known_choices import KnownChoices
from tvm_ios.cost.measured import MeasureCounters, MeasuredCostModel, MeasureOptions
from tvm_ios.cost.profile_key import ProfileContext
from tvm_ios.devices.protocol import MeasuringDevice
from tvm_ios.devices.targets import local_device
from tvm_ios.errors import CostError, OptionError
from tvm_ios.host import cached_libinfo
from tvm_ios.measure.sampling import HOPELESS
from tvm_ios.profile.kernel_variant import (
    VariantGraph,
    by_library,
    with_kernel_identity,
    without_help,
)
from tvm_ios.profile.merge_prices import KernelChoice, MergePrices
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.relay.build import build
from tvm_ios.relay.context import applied_records_digest
from tvm_ios.relay.prepare import PreparedModule
from tvm_ios.search.list_schedule import OperatorTimes

__all__ = [
    "SLOWEST_HOP_NS",
    "KernelPrices",
    "measured_cost_model",
    "open_database",
    "profile_context",
]

FETCHES_AT_ONCE = 10
"""Cache lines a core waits for together when it reads what another core wrote."""
LINE_BYTES = 64
SLOWEST_HOP_NS = 200.0
"""A core-to-core hand-off above this is the machine's slow mode."""
MOST_BYTES_MOVED = 65536
"""The cost of moving more is hidden: prefetchers follow, and the arithmetic takes longer."""
LONG_NS = 50_000
"""What takes longer on one lane is always split: half of it is many times what moving its data to
another core costs. Prices that say otherwise are of a moment in which others had that core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PricedWay:
    """What an operator takes by one of its kernels, in nanoseconds."""

    price_ns: int
    """As it would run: on one lane, or with help."""
    alone_ns: int
    whole: bool
    """Whether help gains too little."""


class KernelPrices:
    """Prices stages of one built module; a CostModel for its graph and no other.

    Parameters
    ----------
    database
        Where prices are kept; None keeps them in memory only.
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
        self.fastest_library: dict[int, str] = {}
        """Operators found to run fastest by a library, by that library's name in files."""
        self._ways: dict[str | None, dict[int, _PricedWay]] = {}
        """What operators take by own kernels (None) and by each library that can compute them."""
        self._whole = with_kernel_identity(runner.built, runner.needs_no_kernel)
        able = runner.library_names
        self._kernels = KernelChoice(
            own=self._whole,
            libraries={name: by_library(self._whole, name, able[name]) for name in able},
            chosen=self._whole,
        )
        context = profile_context(runner.built.prepared.target, runner.lanes, runner.session.device)
        libraries = (library.identity() for library in runner.built.libraries)
        self.identity = " with ".join((self._whole.fingerprint(), *libraries))
        """Of the graph, the code of its kernels, and the libraries that may compute in their
        place."""
        self.choices = KnownChoices(database, context)
        """What was chosen before under the same conditions as these prices."""
        self._measured = MeasuredCostModel(
            runner,
            context,
            options=options,
            database=database,
            on_batch=on_batch,
        )
        self._merges = MergePrices(runner.built, self._measured, able)

    @property
    def counters(self) -> MeasureCounters:
        """What pricing has cost so far."""
        return self._measured.counters

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the prices ought to know; empty when all went well."""
        return (*self._measured.notes, *self._library_notes(), *self.runner.notes)

    def price_operators(self) -> None:
        """Price every operator by itself, with and without the help of idle lanes.

        Short operators that gain too little from help stay on one lane from then on: help has to
        gain more than it costs to move half of what the operator reads and writes between the
        caches of two cores, which the price of one operator run again and again does not show.

        On a GPU nothing helps. Operators that libraries can compute are priced with their calls as
        well, and the fastest way stays.
        """
        self._price_ways_in_turns()
        self._ways = {None: self._priced_ways(self._whole, range(len(self._whole)))}
        for library, names in self.runner.library_names.items():
            graph = self._kernels.libraries[library]
            self._ways[library] = self._priced_ways(graph, sorted(names))
        fastest = [self._fastest_by(index) for index in range(len(self._whole))]
        self.use(
            {index: by for index, by in enumerate(fastest) if by is not None},
            (index for index, by in enumerate(fastest) if self._ways[by][index].whole),
        )

    def use(self, libraries: Mapping[int, str], unsplit: Iterable[int]) -> None:
        """Let libraries compute these operators, and idle lanes leave those alone.

        Operators must have been priced; later prices assume this.

        Parameters
        ----------
        libraries
            Names of libraries in files, by operator.
        unsplit
            Operators that run on one lane.
        """
        self.fastest_library = dict(libraries)
        self.runner.operator_ns = self.operator_ns = tuple(
            self._ways[libraries.get(index)][index].alone_ns for index in range(len(self._whole))
        )
        self.keep_whole(unsplit)

    def keep_whole(self, operators: Iterable[int]) -> None:
        """Let idle lanes leave these operators alone; later prices assume that."""
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

    def is_promising(self, index: int, library: str | None) -> bool:
        """True if a library, or an own kernel, computes an operator, and nothing is far faster.

        Operators must have been priced.
        """
        asked = self._ways[library].get(index)
        fastest = self._ways[self._fastest_by(index)][index]
        return asked is not None and asked.price_ns <= HOPELESS * fastest.price_ns

    @property
    def short(self) -> tuple[int, ...]:
        """Operators so short that help may cost more than it brings; all before pricing."""
        costs_ns = self.operator_ns or (0,) * len(self._whole)
        return tuple(index for index, cost_ns in enumerate(costs_ns) if cost_ns < LONG_NS)

    def save(self) -> None:
        """Try once more to store prices that could not be written."""
        self._measured.save()

    def annotate(self, schedule: InterOpSchedule) -> InterOpSchedule:
        """The schedule with what was found of single operators.

        A list has chosen itself which of them are split.
        """
        return replace(
            schedule,
            operator_ns=self.operator_ns,
            unsplit=schedule.unsplit if schedule.home_lanes else self.unsplit,
            libraries=self._libraries_of(schedule) if self._chose_libraries else None,
        )

    def known_ns(self, schedule: InterOpSchedule) -> tuple[int | None, ...]:
        """Prices of a schedule's stages, in nanoseconds; None where nobody asked for one yet.

        Merges have been priced by whoever put them into the schedule.
        """
        chosen = self._kernels.chosen
        alone = [None if s.is_merge else self._measured.record(chosen, s) for s in schedule.stages]
        merges = [stage for stage in schedule.stages if stage.is_merge]
        merged_ns = iter(self.price(self.graph, merges))
        return tuple(
            next(merged_ns) if stage.is_merge else None if record is None else record.median_ns
            for stage, record in zip(schedule.stages, alone, strict=True)
        )

    def operator_times(self, schedule: InterOpSchedule) -> OperatorTimes:
        """What single operators, and the merges of a schedule, take: known since they were priced.

        Raises
        ------
        CostError
            If a merge cannot be run.
        """
        merges = [stage for stage in schedule.stages if stage.is_merge]
        singles = [Stage(((index,),)) for index in range(len(self.graph))]
        return OperatorTimes(
            alone_ns=self.operator_ns,
            helped_ns=self.price(self.graph, singles),
            merged_ns=dict(zip(merges, self.price(self.graph, merges), strict=True)),
        )

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
        plain = [stage for stage in stages if not stage.is_merge]
        prices = dict(zip(plain, self._measured.price(self._kernels.chosen, plain), strict=True))
        merges = [stage for stage in stages if stage.is_merge]
        prices |= self._merges.price(self._kernels, merges)
        return [prices[stage] for stage in stages]

    def lower_bound(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """What each stage costs at least, in nanoseconds, once operators are priced: its work.

        A lane is a core, so lanes together do no more at a time than each does alone, whether they
        run groups of their own or parts of one operator. Nothing is known where idle lanes do not
        help, for streams share what one kernel leaves over; nor of merges, which change the work.
        """
        del graph
        if not self.runner.idle_lanes_help or not self.operator_ns:
            return [0] * len(stages)
        return [
            0
            if stage.is_merge
            else sum(self.operator_ns[index] for index in stage.operators) // self.runner.lanes
            for stage in stages
        ]

    def floors(
        self, graph: OperatorGraph, stages: Sequence[Stage], prices_ns: Sequence[int]
    ) -> Sequence[int]:
        """Bounds that no stage containing one of these costs less than, in nanoseconds.

        A merge stage with more members may be a concatenation, or need no copies any more, and cost
        less for that.
        """
        del graph
        return [
            max(0, self._merges.floor_ns(self._kernels, stage, price_ns))
            for stage, price_ns in zip(stages, prices_ns, strict=True)
        ]

    def _fastest_by(self, index: int) -> str | None:
        """The library that computes an operator fastest; None for own kernels."""
        able = [by for by, ways in self._ways.items() if index in ways]
        return min(able, key=lambda by: self._ways[by][index].price_ns)

    def _price_ways_in_turns(self) -> None:
        """Price all ways to run an operator at one time, since the faster one is chosen."""
        everything = range(len(self._whole))
        ways: list[tuple[VariantGraph, Collection[int]]] = [(self._whole, everything)]
        ways += [
            (self._kernels.libraries[library], names)
            for library, names in self.runner.library_names.items()
        ]
        if len(ways) == 1:
            return
        if self.runner.idle_lanes_help:
            ways += [(without_help(graph, able), able) for graph, able in ways]
        self._measured.price_ways(
            [
                [(graph, Stage(((index,),))) for graph, able in ways if index in able]
                for index in everything
            ]
        )

    def _priced_ways(self, graph: VariantGraph, operators: Sequence[int]) -> dict[int, _PricedWay]:
        """Price operators by the kernels of a graph, with and without help where there is any."""
        stages = [Stage(((index,),)) for index in operators]
        helped_ns = self._measured.price(graph, stages)
        if not self.runner.idle_lanes_help:
            return {
                index: _PricedWay(price_ns=price_ns, alone_ns=price_ns, whole=False)
                for index, price_ns in zip(operators, helped_ns, strict=True)
            }
        alone_ns = self._measured.price(without_help(graph, operators), stages)
        # The best of a few, and never the slow mode's: the choice must not depend on the moment.
        hop_ns = min(SLOWEST_HOP_NS, *(self.runner.ping_pong_ns() for _ in range(5)))
        fetch_ns = hop_ns / (LINE_BYTES * FETCHES_AT_ONCE)
        found = {}
        for index, helped, alone in zip(operators, helped_ns, alone_ns, strict=True):
            moved_bytes = min(graph.operators[index].memory_bytes / 2, MOST_BYTES_MOVED)
            whole = alone < LONG_NS and alone - helped <= moved_bytes * fetch_ns
            found[index] = _PricedWay(
                price_ns=alone if whole else helped, alone_ns=alone, whole=whole
            )
        return found

    @property
    def _chose_libraries(self) -> bool:
        return bool(self.runner.library_names and self.operator_ns)

    def _with_libraries(self) -> VariantGraph:
        """The graph with the calls of libraries that were found to be the fastest."""
        chosen = self._whole
        for library, names in self.runner.library_names.items():
            faster = {i: n for i, n in names.items() if self.fastest_library.get(i) == library}
            chosen = by_library(chosen, library, faster)
        return chosen

    def _libraries_of(self, schedule: InterOpSchedule) -> tuple[LibraryOperators, ...]:
        """What each library is to compute: single operators, and merges as wholes."""
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
        """How many operators are faster by each library; nothing before they were priced."""
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
    """Build a prepared module and price its stages on this machine.

    Parameters
    ----------
    prepared
        A module prepared for a CPU, or for a GPU of this machine.
    lanes
        Lanes to price for, as for :func:`tvm_ios.tune`.
    database
        A profile database or its file; the default file where omitted.

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
    """The context of all prices of one search: what they depend on besides the stages.

    Parameters
    ----------
    target, lanes
        What kernels are compiled for, and how many lanes run them.
    """
    return ProfileContext(
        device=device.name,
        lanes=lanes,
        tvm_version=tvm.__version__,
        kernels=f"{target} {applied_records_digest()}".rstrip(),
        executor=device.executor_digest,
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
