"""Results of the steps of one call of ``tune``, and the report that is made of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tvm_ios.compile.dialects.dialect import dialect_here
from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.parts import Part
from tvm_ios.core.precision.low_precision import BFLOAT16, FLOAT32
from tvm_ios.core.precision.precision_outcome import PrecisionOutcome, promised_speedup
from tvm_ios.cost.call_database import database_for_call
from tvm_ios.cost.database import open_database
from tvm_ios.devices.protocol import MeasuringDevice, MeasuringSession
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.driver.options import TuneOptions
from tvm_ios.driver.part_contestant import part_contestant
from tvm_ios.measure.comparison import Comparison
from tvm_ios.measure.part_times import PartTimes
from tvm_ios.onnx.rest import Rest
from tvm_ios.profile.decisions.given_decisions import GivenDecisions
from tvm_ios.profile.find_schedules import ScheduledBuild
from tvm_ios.profile.in_time.early_answers import EarlyAnswers
from tvm_ios.profile.last_race import Racer, fitting_racers, racers_of
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.within_memory import MemoryLimit
from tvm_ios.report.records_in_force import RecordsInForce
from tvm_ios.report.tune_report import Contestant, TuneReport
from tvm_ios.runtime.artifact.evidence import Evidence
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.runtime.cpu.part_times import part_times
from tvm_ios.support.progress import PhaseClock
from tvm_ios.support.stage_gate import StageGate

if TYPE_CHECKING:
    from tvm_ios.tuning.tuned_kernels import TunedKernels

__all__ = ["UNTUNED", "TuneRace", "TuneSteps", "measuring_call", "racers_of_call"]

PARTS_S = 0.5
"""Seconds that timing parts alone may take, for small networks about what it takes."""
UNTUNED = {
    Contestant.GREEDY: Contestant.UNTUNED_GREEDY,
    Contestant.IOS: Contestant.UNTUNED_IOS,
    Contestant.IOS_LIST: Contestant.UNTUNED_IOS_LIST,
}
"""Contestants of schedules with untuned kernels, by those of the schedules with tuned ones."""

_LOG = logging.getLogger(__name__)


def measuring_call(
    given: TuneCall,
    options: TuneOptions,
    device: MeasuringDevice,
    gate: StageGate,
    rest: Rest | None,
) -> MeasuringCall:
    """Call that measures on a device, for a ``tune`` with options that its dialect honours.

    ``rest`` is what onnxruntime runs after the model.
    """
    return MeasuringCall(
        lanes=device.require_lanes(given.lanes),
        device=device,
        database=database_for_call(open_database(given.database), fresh=options.database.fresh),
        clock=PhaseClock(given.progress, spent_s=given.time_budget.spent_s),
        gate=gate,
        budget=given.time_budget,
        compare=options.compare,
        measure=options.measure,
        answers=EarlyAnswers(
            told=given.progress is not None and not options.device.is_remote,
            needed=given.time_budget.is_limited,
            rest=rest,
            parts=given.parts,
        ),
    )


def racers_of_call(
    main: ScheduledBuild,
    decided: GivenDecisions,
    parts: Sequence[Part],
    memory: MemoryLimit,
    session: MeasuringSession,
    call: MeasuringCall,
) -> dict[Contestant, Racer]:
    """Contestants of a search, of parts that are timed alone and of given decisions, which fit."""
    racers = racers_of(main, session, call)
    racers |= part_contestant(racers, main, parts, call)
    racers |= decided.racers(racers, main, session, call)
    return fitting_racers(memory.fitting(racers), main.sequential_ns, call)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRace:
    """Everything that one ``tune`` raced, for callers who want more than the winner."""

    racers: Mapping[Contestant, Racer]
    """Contestants whose schedules differ from all before."""
    kept: CompiledModel
    """Result of ``tune``, with its report."""
    certain: bool
    """True if no price, choice or race was taken while the machine was disturbed."""

    @property
    def models(self) -> dict[Contestant, CompiledModel]:
        """Compiled models of all contestants; after a known race, most are compiled only now."""
        return {who: racer.compiled() for who, racer in self.racers.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneSteps:
    """Results of the steps of a call, in their order."""

    call: MeasuringCall
    options: TuneOptions
    ceiling: str
    """Line on what scheduling could gain at most."""
    precision: PrecisionOutcome | None
    """Outcome of the choice between float32 and bfloat16; None where nobody asked for that."""
    form_notes: tuple[str, ...]
    """Notes on the form of the model that was kept."""
    tuned: TunedKernels | None
    """Kernels after tuning; None where nobody asked for any."""
    decided: GivenDecisions
    """Decisions of other tunings that were given."""
    main: ScheduledBuild
    """Schedules of the kept form, with its kernels."""
    racers: Mapping[Contestant, Racer]
    """Contestants of the last race, and those that it had no time for."""
    raced: Comparison
    memory: MemoryLimit
    records_around: Callable[[Any], RecordsInForce | None]
    """Tells which tuning records contexts around the call hold for a build; None without any."""

    def race(self, evidence: Evidence) -> TuneRace:
        """Everything that was raced, and the model that the evidence speaks for."""
        doubtful = self.call.database.use.doubtful or self.main.counters.flagged
        certain = self.raced.is_quiet and not doubtful
        return TuneRace(racers=self.racers, kept=self._kept(evidence), certain=certain)

    def _kept(self, evidence: Evidence) -> CompiledModel:
        who = Contestant(evidence.kept)
        racer = self.racers[who]
        if self.tuned is None:
            records = self.records_around(racer.built.kernels.staged)
        else:
            used = who not in UNTUNED.values()
            records = self.tuned.records if used else self.tuned.records.not_used()
        _LOG.info("kept %s: %s", who.value, evidence.reason)
        model = replace(self.call.answers.whole(racer.compiled()), records=records)
        if model.plan.parts:
            model = model.with_alone(self.racers[Contestant.SEQUENTIAL].compiled().plan)
            evidence = replace(evidence, parts=self._part_times(model))
        return replace(model, tune_report=self._report(model, evidence, records))

    def _part_times(self, model: CompiledModel) -> PartTimes | None:
        """Times of the parts of a joined network, taken now; None where there is no time left."""
        elsewhere = self.options.device.is_remote or is_gpu_target(model.kernels.target)
        if elsewhere:
            return None
        if not self.call.budget.allows(PARTS_S):
            self.call.budget.cut("parts were not timed alone")
            return None
        with self.call.stage("compare", self.call.to_profile), model.executor() as executor:
            return part_times(executor)

    def _report(
        self, model: CompiledModel, evidence: Evidence, records: RecordsInForce | None
    ) -> TuneReport:
        tuned, database = self.tuned, self.call.database
        return TuneReport(
            story=replace(
                model.story(),
                evidence=evidence,
                ceiling=self.ceiling,
                quantised=self._quantised(model, Contestant(evidence.kept)),
                precision=self._precision(model, Contestant(evidence.kept)),
            ),
            arena_bytes=model.plan.arena_bytes,
            sequential_arena_bytes=self.racers[Contestant.SEQUENTIAL].compiled().plan.arena_bytes,
            records=records,
            coverage=self.main.built.extraction.coverage.as_text(),
            measured=self.main.counters.priced,
            from_database=self.main.counters.from_database,
            search=self.main.searches[Contestant.IOS.value],
            remembered=database.use.as_text(database.path),
            tuning="" if tuned is None or tuned.outcome is None else tuned.outcome.as_text(),
            given=self.decided.outcome(self.raced, self.racers),
            notes=self._notes(),
        )

    def _quantised(self, model: CompiledModel, who: Contestant) -> str:
        """Line on what is computed in int8; empty for a model that is not quantised."""
        products = self.racers[who].built.prepared.quantised
        return "" if products is None else products.line(model.graph, model.schedule)

    def _precision(self, model: CompiledModel, who: Contestant) -> PrecisionOutcome | None:
        """Outcome of a wish for bfloat16, or what that promises; None where it promises nothing."""
        outcome = self.precision
        if outcome is None:
            return self._promise()
        given = self.decided.schedules.get(who)
        if given is not None and given.precision is not None:
            return given.precision
        if outcome.is_low and model.schedule.low is None:
            return outcome.as_float32("a contestant in float32 won the last race")
        return outcome

    def _promise(self) -> PrecisionOutcome | None:
        built, prices = self.main.built, self.main.prices
        if prices is None or self.options.why_not_bfloat16():
            return None
        if not any(each.speeds_up(BFLOAT16) for each in built.libraries):
            return None
        products = dialect_here().low_values(built.extraction).most().weights
        product_ns = sum(prices.alone_ns[index] for index in products)
        promised = promised_speedup(product_ns, sum(prices.alone_ns))
        return None if promised is None else PrecisionOutcome(dtype=FLOAT32, promised=promised)

    def _notes(self) -> tuple[str, ...]:
        conversion = self.options.conversion
        converted = conversion.as_text() if conversion.changes else ""
        return (
            *self.main.built.prepared.notes,
            *([f"the model was converted: {converted}"] if converted else []),
            *self.call.device.notes,
            *self.form_notes,
            *(() if self.tuned is None else self.tuned.notes),
            *self.main.notes,
            *self.memory.notes,
            *self.raced.notes,
            *self.call.budget.notes,
        )
