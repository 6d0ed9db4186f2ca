"""Measured prices of stages on the real executor, each distinct stage once ever.

A stage is looked up by its profile key in memory, then in the profile database. The rest is timed
in interleaved rounds (see :mod:`tvm_ios.measure.sampling`) and stored. Stages are timed one at a
time, back to back, so their caches are warm; callers add what a stage costs more in a network
(:mod:`tvm_ios.profile.prices`).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.database import PriceRecord, ProfileDatabase
from tvm_ios.cost.database_use import Remembered, day_of
from tvm_ios.cost.profile_key import ProfileContext, stage_profile_key
from tvm_ios.cost.protocol import StageRunner
from tvm_ios.cost.rivals import Rivals
from tvm_ios.errors import CostError, DatabaseError, LostSessionError
from tvm_ios.measure.machine_mode import ModeOptions, ModeWatch, Patience
from tvm_ios.measure.robust import median_absolute_deviation
from tvm_ios.measure.sampling import Cell, MeasureOptions, explained, sample
from tvm_ios.support.time_budget import TimeBudget

__all__ = [
    "MeasureCounters",
    "MeasureOptions",
    "MeasuredStages",
    "ModeOptions",
    "StageRunner",
    "Way",
]

_LOG = logging.getLogger(__name__)

FEWEST_RIGHT = 3
"""Fewest undisturbed samples whose median is the price, in place of that of all samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureCounters:
    """Counts and seconds of all pricing so far."""

    requested: int = 0
    """Number of stages asked for, equal ones counted each time."""
    priced: int = 0
    """Number of distinct stages that this model measured."""
    from_database: int = 0
    """Number of distinct stages whose price was in the database."""
    flagged: int = 0
    """Number of distinct stages whose price comes from disturbed samples."""
    samples: int = 0
    """Number of samples that count."""
    slow_rounds_dropped: int = 0
    seconds: float = 0.0
    """Seconds spent inside :meth:`MeasuredStages.price`."""
    unsaved: int = 0
    """Number of prices kept in memory only, because the database could not be written."""


Way = tuple[OperatorGraph, Stage]
"""A stage, and the graph whose kernels run it."""


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A way that has no price yet, with its rivals."""

    way: Way
    rivals: list[Rivals]
    """Rivals of the way, one entry for each question that asks for it."""


class MeasuredStages:
    """Prices of stages by running them.

    Prices depend on the context, besides the stages. Without a database they live as long as this.
    ``patience``, ``budget``, ``clock_ns`` and ``sleep_s`` are as for
    :class:`~tvm_ios.measure.machine_mode.ModeWatch`.
    """

    def __init__(
        self,
        runner: StageRunner,
        context: ProfileContext,
        *,
        options: MeasureOptions | None = None,
        database: ProfileDatabase | None = None,
        patience: Patience | None = None,
        budget: TimeBudget | None = None,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        self._runner = runner
        self._context = context
        self._options = options or MeasureOptions()
        self._database = database
        self._budget = budget or TimeBudget()
        self._clock_ns = clock_ns
        self._watch = ModeWatch(
            self._ping_pong_ns,
            self._options.mode,
            waited_ns=runner.waited_ns,
            patience=patience,
            budget=budget,
            clock_ns=clock_ns,
            sleep_s=sleep_s,
        )
        self._records: dict[str, PriceRecord] = {}
        self._unsaved: dict[str, PriceRecord] = {}
        self._save_at = 1
        """Number of unsaved prices at which the next write is tried; doubles with each failure."""
        self._database_note: str | None = None
        self._counters = MeasureCounters()

    @property
    def counters(self) -> MeasureCounters:
        """Counts and seconds of all pricing so far."""
        flagged = sum(record.slow_mode for record in self._records.values())
        return replace(self._counters, flagged=flagged, unsaved=len(self._unsaved))

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines that a reader of the prices ought to know; empty when all went well."""
        notes = []
        counters = self.counters
        if counters.flagged:
            notes.append(
                f"{counters.flagged} of {len(self._records)} stages were priced while "
                f"{self._watch.told()}; their prices are too high: tune again when the machine is "
                "quiet (they will be measured anew)"
            )
        if self._database_note is not None:
            notes.append(self._database_note)
        return tuple(notes)

    def price(
        self,
        questions: Sequence[Sequence[Way]],
        *,
        on_batch: Callable[[MeasureCounters], None] | None = None,
    ) -> list[int]:
        """Latency of each way, run by itself, in whole nanoseconds, at least 1.

        Ways of a question do the same work, and prices come question by question. Only prices taken
        at one time can be compared: between two calls the machine may become busy. Equal stages are
        measured once. A way whose runs are long, and far longer than another way's of its question,
        gets a price of one sample; so does a stage that takes 1.05 times as long as its groups one
        after another, priced before, or one of three. An interrupt or error keeps, and stores, the
        prices of all complete batches. ``on_batch`` is called after each measured batch.

        Raises
        ------
        OutOfTimeError
            If the time budget is over before all have a price; those of complete samples are kept.
        """
        start_ns = self._clock_ns()
        try:
            keys, todo = self._sought(questions)
            size = self._options.batch_size
            for first in range(0, len(todo), size):
                cells: dict[str, Cell] = {}
                try:
                    for key, unknown in todo[first : first + size]:
                        self._budget.require_spare("price stages")
                        cells[key] = self._cell(unknown, cells)
                    dropped = sample(list(cells.values()), self._options, self._watch, self._budget)
                    self._count(slow_rounds_dropped=dropped)
                finally:
                    self._keep(cells)
                    # Limits hold them, and they what was prepared: that goes now, not later.
                    cells.clear()
                if on_batch is not None:
                    on_batch(self.counters)
            if not all(key in self._records for key in keys):
                self._budget.require_spare("price stages")
            return [self._records[key].median_ns for key in keys]
        finally:
            self._count(seconds=(self._clock_ns() - start_ns) / 1e9)

    def record(self, graph: OperatorGraph, stage: Stage) -> PriceRecord | None:
        """Median, spread and samples of a stage's price; None before it was priced."""
        return self._records.get(stage_profile_key(graph, stage))

    def _sought(
        self, questions: Sequence[Sequence[Way]]
    ) -> tuple[list[str], list[tuple[str, _Unknown]]]:
        """Keys of all ways, and ways that have to be measured, with their keys."""
        asked: list[str] = []
        unknown: dict[str, _Unknown] = {}
        for ways in questions:
            keys = [stage_profile_key(*way) for way in ways]
            for key, way in zip(keys, ways, strict=True):
                if key not in self._records:
                    rivals = Rivals.of(way, key, keys)
                    unknown.setdefault(key, _Unknown(way, [])).rivals.append(rivals)
            asked += keys
        self._count(requested=len(asked))
        self._recall(unknown)
        todo = [(key, each) for key, each in unknown.items() if key not in self._records]
        _LOG.debug("%d of %d prices are known", len(unknown) - len(todo), len(unknown))
        return asked, todo

    def save(self) -> None:
        """Try again to store the prices that could not be written."""
        self._save_at = 1
        self._store({})

    def _recall(self, unknown: Mapping[str, _Unknown]) -> None:
        """Take over prices that the database knows well enough."""
        if self._database is None or not unknown:
            return
        try:
            found = self._database.get_many(self._context, unknown)
        except DatabaseError as error:
            self._database_note = f"prices were not read from the profile database: {error}"
            return
        enough = {
            key: record
            for key, record in found.items()
            if record.samples >= self._options.looks(record.median_ns)[0]
        }
        # Prices of a disturbed machine are worth replacing, unless it is in its slow mode now.
        if any(record.slow_mode for record in enough.values()) and not self._watch.look():
            enough = {key: record for key, record in enough.items() if not record.slow_mode}
        self._records.update(enough)
        hopeless = {
            key: record
            for key, record in found.items()
            if not record.slow_mode and record.median_ns > self._limit_ns(unknown[key].rivals, {})
        }
        self._records.update(hopeless)
        enough |= hopeless
        self._count(from_database=len(enough))
        for key, record in enough.items():
            self._database.use.take(Remembered.PRICE, key, day_of(record.measured_at_s))

    def _cell(self, unknown: _Unknown, cells: Mapping[str, Cell]) -> Cell:
        """A way ready to be sampled, beside the others of its batch."""
        graph, stage = unknown.way
        groups = " | ".join(
            " -> ".join(graph.operators[index].name for index in group) for group in stage.groups
        )
        where = f"the {stage.strategy.value} stage [{groups}] to price it"
        with explained(f"graph {graph.name!r}: cannot prepare {where}"):
            made = self._runner.prepare(graph, stage)
        return Cell(
            made.time_ns,
            self._options.number,
            failure=f"graph {graph.name!r}: cannot run {where}",
            limit_ns=partial(self._limit_ns, unknown.rivals, cells),
        )

    def _limit_ns(self, rivals: Sequence[Rivals], cells: Mapping[str, Cell]) -> float:
        """Nanoseconds above which a way needs no exact price: each question has a faster rival."""

        def known_ns(key: str) -> float:
            if key in self._records:
                return self._records[key].median_ns
            return cells[key].least_ns if key in cells else math.inf

        return max(each.limit_ns(known_ns) for each in rivals)

    def _ping_pong_ns(self) -> float:
        try:
            return self._runner.ping_pong_ns()
        except LostSessionError:  # whoever waits for the device begins again
            raise
        except Exception as error:
            raise CostError(
                f"core-to-core ping-pong failed: {type(error).__name__}: {error}; "
                "run tvm-ios doctor, or price with one lane"
            ) from error

    def _record_of(self, cell: Cell) -> PriceRecord:
        least, _ = self._options.looks(cell.least_ns)
        used_ns = cell.used_ns(least)
        # Of a few looks the fastest one: it is a floor of other stages, and others only add time.
        few = len(used_ns) < least
        # A few undisturbed samples are right, and disturbed ones only ever too long.
        right_ns = cell.fast_ns if len(cell.fast_ns) >= FEWEST_RIGHT else used_ns
        return PriceRecord(
            median_ns=max(1, round(cell.least_ns if few else median(right_ns))),
            samples=len(used_ns),
            spread_ns=round(median_absolute_deviation(used_ns)),
            # The very list of fast samples comes back where these alone are enough.
            slow_mode=used_ns is not cell.fast_ns and bool(cell.slow_ns),
            measured_at_s=time.time(),
        )

    def _keep(self, cells: Mapping[str, Cell]) -> None:
        """Keep complete prices, even if their batch was cut short."""
        records = {
            key: self._record_of(cell)
            for key, cell in cells.items()
            if cell.complete(self._options)
        }
        self._records.update(records)
        self._count(priced=len(records), samples=sum(record.samples for record in records.values()))
        if self._database is not None:
            self._database.use.measure(Remembered.PRICE, records)
        self._store(records)

    def _store(self, records: dict[str, PriceRecord]) -> None:
        """Write to the database; a failure costs a tuning run only the storing."""
        if self._database is None:
            return
        self._unsaved.update(records)
        if len(self._unsaved) < self._save_at:
            return
        try:
            self._database.put_many(self._context, self._unsaved)
        except DatabaseError as error:
            self._save_at = 2 * len(self._unsaved)
            self._database_note = f"prices are kept in memory and may be lost at the end: {error}"
            return
        self._unsaved.clear()
        self._save_at = 1
        self._database_note = None

    def _count(self, **more: float) -> None:
        """Add numbers to counters, by name."""
        old = self._counters
        self._counters = replace(
            old, **{name: getattr(old, name) + number for name, number in more.items()}
        )
