"""Decisions of other tunings as contestants of this one, and what became of them.

They come after :mod:`~tvm_ios.profile.decisions.fit_decisions` and go into the last race.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.dialects.dialect import dialect_here
from tvm_ios.core.precision.precision_outcome import PrecisionOutcome
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.measure.comparison import Comparison
from tvm_ios.profile.find_schedules import ScheduledBuild
from tvm_ios.profile.last_race import Racer
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.race import compiled_for
from tvm_ios.report.contestants import GIVEN, Contestant

__all__ = ["GivenDecisions", "GivenSchedule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSchedule:
    """Schedule of a file of decisions, on a build of this call's model."""

    file: str
    built: BuiltModel
    schedule: InterOpSchedule
    told: str
    """Line on the place where it was made, and on what is not as it was there."""
    precision: PrecisionOutcome | None = None
    """Errors of a build in bfloat16 of its own; None where the build is the call's, or exact."""

    def is_of(self, racer: Racer) -> bool:
        """True if a contestant runs the same in the same build."""
        one, other = self.schedule, racer.schedule
        return (
            racer.built is self.built
            and one.stages == other.stages
            and one.home_lanes == other.home_lanes
            and one.unsplit == other.unsplit
            and (one.libraries or ()) == (other.libraries or ())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenDecisions:
    """Decisions that were given to a call, as far as they fit its model."""

    schedules: Mapping[Contestant, GivenSchedule]
    unfit: tuple[str, ...] = ()
    """Lines on files that do not race, with the reasons."""

    def racers(
        self,
        found: Mapping[Contestant, Racer],
        main: ScheduledBuild,
        session: MeasuringSession,
        call: MeasuringCall,
    ) -> dict[Contestant, Racer]:
        """Contestants that differ from those found before and from each other.

        They are compiled with the records in force.
        """
        racers: dict[Contestant, Racer] = {}
        operator_ns = () if main.prices is None else tuple(main.prices.alone_ns)
        for who, given in self.schedules.items():
            if any(map(given.is_of, (*found.values(), *racers.values()))):
                continue
            schedule = given.schedule
            if given.built is main.built:  # lanes are planned by times, and these are of here
                schedule = replace(schedule, operator_ns=operator_ns or schedule.operator_ns)
            racers[who] = Racer(
                built=given.built,
                schedule=schedule,
                records=dialect_here().records_digest(),
                lower=partial(
                    compiled_for, session, given.built, lanes=call.lanes, database=call.database
                ),
            )
        return racers

    def outcome(self, raced: Comparison, racers: Mapping[Contestant, Racer]) -> tuple[str, ...]:
        """Lines for the report on what each file brought."""
        taken = [who for who in racers if who.value in raced.names]
        own = raced.fastest(who.value for who in taken if who not in GIVEN)
        lines = []
        for who, given in self.schedules.items():
            if who in racers and who.value in raced.names:
                speedup = raced.speedup(who.value, over=own)
                became = (
                    f"{who.value}, {speedup.ratio:.3f} ({speedup.low:.3f} to {speedup.high:.3f}) "
                    f"times as fast as {own}, the best found here without them"
                )
            else:
                twins = (other.value for other in racers if given.is_of(racers[other]))
                twin = None if who in racers else next(twins, None)
                became = (
                    "does not race within the time budget"
                    if twin is None
                    else f"decides as {twin} does"
                )
            lines.append(f"{given.file}: {became}; {given.told}")
        return (*lines, *self.unfit)
