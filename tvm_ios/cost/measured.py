"""The measured cost model: prices stages on the real executor, each distinct stage once ever.

A stage is looked up by its profile key in memory, then in the profile database. The rest is timed
in interleaved rounds (see :mod:`tvm_ios.measure.sampling`) and stored. Stages are timed one at a
time, back to back, so their caches are warm; callers add what a stage costs more in a network
(:mod:`tvm_ios.profile.prices`).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.database import PriceRecord, ProfileDatabase
from tvm_ios.cost.database_use import Remembered, day_of
from tvm_ios.cost.profile_key import ProfileContext, stage_profile_key
from tvm_ios.cost.rivals import Rivals
from tvm_ios.cost.stage_runner import StageRunner
from tvm_ios.errors import CostError, DatabaseError, LostSessionError
from tvm_ios.measure.machine_mode import ModeOptions, ModeWatch, Patience
from tvm_ios.measure.robust import median_absolute_deviation
from tvm_ios.measure.sampling import Cell, MeasureOptions, sample

__all__ = ["MeasureCounters", "MeasureOptions", "MeasuredCostModel", "ModeOptions", "StageRunner"]

_LOG = logging.getLogger(__name__)


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
    """Number of distinct stages whose price comes from the machine's slow mode."""
    samples: int = 0
    """Number of samples that count."""
    slow_rounds_dropped: int = 0
    seconds: float = 0.0
    """Seconds spent inside :meth:`MeasuredCostModel.price`."""
    unsaved: int = 0
    """Number of prices kept in memory only, because the database could not be written."""


_Way = tuple[OperatorGraph, Stage]
"""A stage, and the graph whose kernels run it."""
_Asked = tuple[str, _Way, Callable[[], Rivals]]
"""Key of a way, the way, and its rivals in the question that asks for it."""


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A way that has no price yet, with its rivals."""

    way: _Way
    rivals: list[Rivals]
    """Rivals of the way, one entry for each question that asks for it."""


class MeasuredCostModel:
    """Prices stages by running them; a :class:`~tvm_ios.cost.protocol.CostModel`.

    Prices depend on the context, besides the stages. Without a database they live as long as the
    model. ``on_batch`` is called after each measured batch, for progress. ``patience``,
    ``clock_ns`` and ``sleep_s`` are as for :class:`~tvm_ios.measure.machine_mode.ModeWatch`.
    """

    def __init__(
        self,
        runner: StageRunner,
        context: ProfileContext,
        *,
        options: MeasureOptions | None = None,
        database: ProfileDatabase | None = None,
        on_batch: Callable[[MeasureCounters], None] | None = None,
        patience: Patience | None = None,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        sleep_s: Callable[[float], None] = time.sleep,
    ) -> None:
        self._runner = runner
        self._context = context
        self._options = options or MeasureOptions()
        self._database = database
        self._on_batch = on_batch
        self._clock_ns = clock_ns
        self._watch = ModeWatch(
            self._ping_pong_ns,
            self._options.mode,
            patience=patience,
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
                f"{counters.flagged} of {len(self._records)} stages were priced while the machine "
                f"was in its slow mode (core-to-core ping-pong now {self._watch.last_ns:.0f} ns, "
                f"usually {self._watch.fast_ns:.0f} ns); their prices are too high: tune again "
                "when the machine is quiet (they will be measured anew), or raise slow_ns if these "
                "are its normal times"
            )
        if self._database_note is not None:
            notes.append(self._database_note)
        return tuple(notes)

    def price(self, graph: OperatorGraph, stages: Sequence[Stage]) -> Sequence[int]:
        """Latency of each stage, run by itself, in whole nanoseconds, at least 1.

        Equal stages are measured once. A stage that takes 1.05 times as long as its groups one
        after another, priced before, gets a price of one to three samples. An interrupt or error
        keeps, and stores, the prices of all complete batches.
        """
        return self._priced(
            lambda: [
                (
                    stage_profile_key(graph, stage),
                    (graph, stage),
                    partial(Rivals.own_groups, graph, stage),
                )
                for stage in stages
            ]
        )

    def price_ways(self, questions: Sequence[Sequence[_Way]]) -> Sequence[int]:
        """Prices of ways in nanoseconds, question by question; ways of a question do the same work.

        Only prices taken at one time can be compared: between two calls the machine may become
        busy. A way whose runs are long, and far longer than another way's of its question, gets a
        price of one sample.
        """
        return self._priced(lambda: [each for ways in questions for each in _asked(ways)])

    def _priced(self, ask: Callable[[], Sequence[_Asked]]) -> list[int]:
        """Nanoseconds of all stages asked for; the time to find their keys counts as pricing."""
        start_ns = self._clock_ns()
        try:
            asked = ask()
            self._count(requested=len(asked))
            unknown: dict[str, _Unknown] = {}
            for key, way, rivals in asked:
                if key not in self._records:
                    unknown.setdefault(key, _Unknown(way, [])).rivals.append(rivals())
            self._recall(unknown)
            todo = [(key, each) for key, each in unknown.items() if key not in self._records]
            size = self._options.batch_size
            for first in range(0, len(todo), size):
                self._measure(dict(todo[first : first + size]))
            return [self._records[key].median_ns for key, _, _ in asked]
        finally:
            self._count(seconds=(self._clock_ns() - start_ns) / 1e9)

    def record(self, graph: OperatorGraph, stage: Stage) -> PriceRecord | None:
        """Median, spread and samples of a stage's price; None before it was priced."""
        return self._records.get(stage_profile_key(graph, stage))

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
        # Prices from the slow mode are worth replacing, unless the machine is in it again.
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
        _LOG.debug("%d of %d prices are known", len(enough), len(unknown))
        for key, record in enough.items():
            self._database.use.take(Remembered.PRICE, key, day_of(record.measured_at_s))

    def _measure(self, batch: Mapping[str, _Unknown]) -> None:
        """Price a batch together; complete prices are kept even if the batch is cut short."""
        cells: dict[str, Cell] = {}
        try:
            for key, unknown in batch.items():
                limit_ns = partial(self._limit_ns, unknown.rivals, cells)
                timer = self._timer(*unknown.way)
                cells[key] = Cell(timer, self._options.number, limit_ns=limit_ns)
            dropped = sample(list(cells.values()), self._options, self._watch)
            self._count(slow_rounds_dropped=dropped)
        finally:
            self._keep(
                {
                    key: self._record_of(cell)
                    for key, cell in cells.items()
                    if cell.complete(self._options)
                }
            )
            # Limits hold them, and they what was prepared: that goes now, not some time later.
            cells.clear()
        _LOG.debug("measured %d stages, %d slow rounds dropped", len(batch), dropped)
        if self._on_batch is not None:
            self._on_batch(self.counters)

    def _limit_ns(self, rivals: Sequence[Rivals], cells: Mapping[str, Cell]) -> float:
        """Nanoseconds above which a way needs no exact price: each question has a faster rival."""

        def known_ns(key: str) -> float:
            if key in self._records:
                return self._records[key].median_ns
            return cells[key].least_ns if key in cells else math.inf

        return max(each.limit_ns(known_ns) for each in rivals)

    def _timer(self, graph: OperatorGraph, stage: Stage) -> Callable[[int], int]:
        with _explained(graph, stage, "prepare"):
            handle = self._runner.prepare(graph, stage)

        def time_ns(number: int) -> int:
            with _explained(graph, stage, "run"):
                elapsed_ns = self._runner.time_ns(handle, number)
                if elapsed_ns < 0:
                    raise ValueError(f"{number} runs took {elapsed_ns} ns; the clock went back")
                return elapsed_ns

        return time_ns

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
        return PriceRecord(
            median_ns=max(1, round(cell.least_ns if few else median(used_ns))),
            samples=len(used_ns),
            spread_ns=round(median_absolute_deviation(used_ns)),
            # The very list of fast samples comes back where these alone are enough.
            slow_mode=used_ns is not cell.fast_ns and bool(cell.slow_ns),
            measured_at_s=time.time(),
        )

    def _keep(self, records: dict[str, PriceRecord]) -> None:
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


def _asked(ways: Sequence[_Way]) -> list[_Asked]:
    """Keys, ways and rivals of one question."""
    keys = [stage_profile_key(*way) for way in ways]
    return [
        (key, way, partial(Rivals.other_ways, key, keys))
        for key, way in zip(keys, ways, strict=True)
    ]


@contextmanager
def _explained(graph: OperatorGraph, stage: Stage, verb: str) -> Iterator[None]:
    """Context that turns errors of a runner into errors that name the stage."""
    try:
        yield
    except LostSessionError:  # it names the device, and whoever waits for that begins again
        raise
    except Exception as error:
        groups = " | ".join(
            " -> ".join(graph.operators[index].name for index in group) for group in stage.groups
        )
        raise CostError(
            f"graph {graph.name!r}: cannot {verb} the {stage.strategy.value} stage [{groups}] to "
            f"price it: {type(error).__name__}: {error}"
        ) from error
