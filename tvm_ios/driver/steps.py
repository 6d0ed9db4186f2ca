"""Steps of ``tune`` after building: search each build, compile possible winners, and race them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database_use import Remembered
from tvm_ios.cost.known_races import KnownRace, KnownRaces
from tvm_ios.cost.measured import MeasureCounters
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import least_rounds
from tvm_ios.profile.find_schedules import FoundSchedules, find_schedules
from tvm_ios.profile.last_race import RaceEnd, Racer, known_end, race_identity, raced_end
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.prices import StagePrices
from tvm_ios.profile.race import compiled_for, looks_s, race_s, round_s
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.profile.traced_runs import RUNS_FOR_TRACES, traced_runs
from tvm_ios.profile.way_choice import settled_prices
from tvm_ios.relay.context import applied_records_digest
from tvm_ios.report.tune_report import Contestant
from tvm_ios.runtime.artifact.evidence import CurvePoint, Evidence, TracedRuns
from tvm_ios.search.options import SearchOptions

__all__ = ["UNTUNED", "ScheduledBuild", "Steps"]

UNTUNED = {
    Contestant.GREEDY: Contestant.UNTUNED_GREEDY,
    Contestant.IOS: Contestant.UNTUNED_IOS,
    Contestant.IOS_LIST: Contestant.UNTUNED_IOS_LIST,
}
"""Contestants of schedules with untuned kernels, by those of the schedules with tuned ones."""
SHORT_S = 0.5
"""Seconds of traced runs up to which they are made in any case, without harm to a budget."""


_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledBuild:
    """A build with its schedules, to be compiled for the race."""

    built: BuiltModel
    prices: StagePrices
    found: FoundSchedules
    racers: Mapping[Contestant, Racer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Scheduler and racer of builds within one call of ``tune``."""

    call: MeasuringCall
    search: SearchOptions

    def schedule(self, built: BuiltModel, session: MeasuringSession) -> ScheduledBuild:
        """Prices and schedules of a build, with the records in force."""
        with (
            # First: lanes are bound to the cores that the stage is granted.
            self.call.stage("search", self.call.to_profile) as granted,
            session.in_stage(granted.address),
            RelayStageRunner(
                built, lanes=self.call.lanes, session=session, database=self.call.database
            ) as runner,
        ):
            kernels = MeasuredKernels(
                runner, database=self.call.database, options=self.call.measure
            )
            prices = settled_prices(kernels, on_batch=self._tell_of_operators)
            limits = {Contestant.IOS.value: self.search}
            lists = {Contestant.IOS_LIST.value: Contestant.IOS.value}
            found = find_schedules(
                prices,
                limits,
                self.call.clock,
                self.call.budget,
                lists=lists,
                compare=self.call.compare,
            )
            known_ns = {
                name: () if name == Contestant.OWN_KERNELS.value else prices.known_ns(schedule)
                for name, schedule in found.schedules.items()
            }
        told = kernels.counters
        _LOG.info("prices: %d measured, %d known", told.priced, told.from_database)
        distinct = found.without_repetitions()
        alike = [name for name in found.schedules if name not in distinct]
        if alike:
            _LOG.info("do not race, being sequential order as well: %s", ", ".join(alike))
        records = applied_records_digest()
        racers = {
            Contestant(name): Racer(
                built=built,
                schedule=schedule,
                records=records,
                compiled=cache(partial(self._compiled, built, schedule, session)),
                prices_ns=known_ns[name],
            )
            for name, schedule in distinct.items()
        }
        return ScheduledBuild(built=built, prices=prices, found=found, racers=racers)

    def _tell_of_operators(self, counters: MeasureCounters) -> None:
        """Report on priced operators, before the search reports on stages."""
        self.call.clock.say(f"operators, {counters.priced} ways of them measured")

    def compile(self, racers: Mapping[Contestant, Racer]) -> dict[Contestant, CompiledModel]:
        """Compiled contestants, with the records in force; later calls return the same models."""
        with self.call.stage("lower", self.call.to_prepare()):
            return {who: racer.compiled() for who, racer in racers.items()}

    def finish(
        self, racers: Mapping[Contestant, Racer], sequential_ns: int, session: MeasuringSession
    ) -> RaceEnd:
        """Outcome of the contestants' race, or of an equal one of an earlier call."""
        options = self.call.compare
        identity = race_identity(racers, options)
        target = next(iter(racers.values())).built.prepared.target
        races = KnownRaces(self.call.database, self.call.context(target))
        with self.call.stage("lower", self.call.to_prepare()):
            known = known_end(racers, identity if options.reuse else None, races)
        if known is not None:
            with self.call.clock.phase("compare"):  # every report has this phase
                return known
        models = self.compile(racers)
        chosen = self.race_options(sequential_ns, len(models))

        def keep(raced: KnownRace) -> None:
            # A race that was cut short is no answer for calls with more time.
            if identity is not None and chosen == options:
                races.keep(identity, raced)

        self.call.database.use.measure(Remembered.RACE, [identity or "without an identity"])
        with (
            self.call.stage("compare", self.call.to_profile) as granted,
            session.in_stage(granted.address),
        ):
            return raced_end(models, options=chosen, session=session, keep=keep)

    def evidence(
        self,
        end: RaceEnd,
        racer: Racer,
        session: MeasuringSession,
        curve: tuple[CurvePoint, ...] = (),
    ) -> Evidence:
        """Measurements of the kept model, with traced runs that are made now."""
        traced = TracedRuns()
        needed_s = RUNS_FOR_TRACES * end.comparison.median_ns(end.kept.value) / 1e9
        if needed_s < SHORT_S or self.call.budget.allows(needed_s):
            # No phase of its own: like the race, it times whole networks.
            with (
                self.call.stage("compare", self.call.to_profile) as granted,
                session.in_stage(granted.address),
            ):
                traced = traced_runs(end.model, session)
        else:
            self.call.budget.cut("no run was traced, so stages have predicted times only")
        return Evidence(
            kept=end.kept.value,
            reason=end.reason,
            race=end.comparison,
            lanes=self.call.lanes,
            prices_ns=racer.prices_ns,
            traced=traced,
            curve=curve,
            phase_s=dict(self.call.clock.phase_s),
        )

    def _compiled(
        self, built: BuiltModel, schedule: InterOpSchedule, session: MeasuringSession
    ) -> CompiledModel:
        call = self.call
        return compiled_for(session, built, schedule, lanes=call.lanes, database=call.database)

    def untuned(
        self, built: BuiltModel, tuned: ScheduledBuild, session: MeasuringSession
    ) -> dict[Contestant, Racer]:
        """Best schedules of untuned kernels, which tuned ones have to beat beside sequential order.

        Sequential order of the untuned kernels lost to that of the tuned ones before.
        """
        needed_s = 2 * race_s(tuned.found.sequential_ns, self.call.compare)
        if not self.call.budget.allows(needed_s):
            self.call.budget.cut("schedules of untuned kernels were not found, and so not compared")
            return {}
        racers = self.schedule(built, session).racers
        return {UNTUNED[who]: racer for who, racer in racers.items() if who in UNTUNED}

    def race_options(self, sequential_ns: int, contestants: int) -> CompareOptions:
        """Options of a race with as many rounds as there is time for."""
        compare = self.call.compare
        if self.call.budget.allows(race_s(sequential_ns, compare, contestants=contestants)):
            return compare
        each_s = round_s(sequential_ns, compare, contestants=contestants)
        before_s = looks_s(sequential_ns, compare, contestants=contestants)
        affordable = int(max(0.0, self.call.budget.left_s - before_s) / each_s)
        rounds = min(max(least_rounds(compare.confidence), affordable), compare.rounds)
        if rounds < compare.rounds:
            self.call.budget.cut(f"the last race had {rounds} rounds of {compare.rounds}")
        return replace(compare, rounds=rounds)
