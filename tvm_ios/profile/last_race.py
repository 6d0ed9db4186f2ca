"""The race that ends a call: run once for equal conditions, then known like a price.

If an earlier call ran it, only the kept schedule is compiled. Its plan has to be the one that
raced, which shows changes of the lowering. The kept model is traced, since a price is of a stage
repeated by itself, and in a network one stage runs after another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from types import MappingProxyType

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.dialects.dialect import dialect_here
from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database_use import Remembered
from tvm_ios.cost.known_races import KnownRace, KnownRaces
from tvm_ios.cost.profile_key import digest_of
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.errors import OutOfTimeError
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import Comparison
from tvm_ios.measure.deadlines import PartDeadline
from tvm_ios.plan.image import image_bytes
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.profile.deadlines import choose_in_time, measured_deadlines
from tvm_ios.profile.find_schedules import ScheduledBuild
from tvm_ios.profile.in_time.time_plan import fitting
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.race import choose, compiled_for, executors_of, race
from tvm_ios.report.tune_report import Contestant
from tvm_ios.runtime.artifact.evidence import CurvePoint, Evidence, TracedRuns
from tvm_ios.support.time_budget import Reserve

__all__ = [
    "Racer",
    "compiled_racers",
    "evidence_of",
    "fitting_racers",
    "race_identity",
    "racers_of",
    "run_last_race",
]

RACE_PROTOCOL = 5
"""Version of how races are run and ended, beside their options."""
TRACES = 7
WARM_UP = 3
RUNS_FOR_TRACES = WARM_UP + 2 * TRACES
"""Runs of all traces: each trace is of the second of two, since the first finds lanes asleep."""
SHORT_S = 0.5
"""Seconds of traced runs up to which they are made in any case, without harm to a budget."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Racer:
    """A contestant, before its schedule is compiled.

    With another schedule it is another one: ``replace(racer, schedule=…, prices_ns=())``.
    """

    built: BuiltModel
    schedule: InterOpSchedule
    records: str
    """Digest of the tuning records it is compiled under, for kernels of merged stages."""
    lower: Callable[[InterOpSchedule], CompiledModel]
    """Compiles a schedule of :attr:`built`."""
    prices_ns: tuple[int | None, ...] = ()
    """Known prices of its stages in nanoseconds; empty where other kernels run than were priced."""
    compiled: Callable[[], CompiledModel] = field(init=False)
    """Returns the compiled contestant; the same model each time."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "compiled", cache(partial(self.lower, self.schedule)))

    @property
    def promised_ns(self) -> int | None:
        """Nanoseconds of a run that prices promise; None where some price is not known."""
        if self.schedule.latency_ns is not None and self.prices_ns:
            return self.schedule.latency_ns
        known_ns = [price_ns for price_ns in self.prices_ns if price_ns is not None]
        whole = known_ns and len(known_ns) == len(self.prices_ns) and not self.schedule.home_lanes
        return sum(known_ns) if whole else None


def racers_of(
    found: ScheduledBuild, session: MeasuringSession, call: MeasuringCall
) -> dict[Contestant, Racer]:
    """Contestants of a build, to be compiled with the records in force."""
    distinct = found.without_repetitions()
    alike = [name for name in found.schedules if name not in distinct]
    if alike:
        _LOG.info("do not race, being sequential order as well: %s", ", ".join(alike))
    records, first = dialect_here().records_digest(), call.answers.first
    lower: Callable[[InterOpSchedule], CompiledModel]
    lower = partial(compiled_for, session, found.built, lanes=call.lanes, database=call.database)
    if found.prices is None and first is not None and first.model.kernels is found.built.kernels:
        lower = {found.schedules[Contestant.SEQUENTIAL.value]: first.model}.__getitem__
    return {
        Contestant(name): Racer(
            built=found.built,
            schedule=schedule,
            records=records,
            lower=lower,
            prices_ns=() if name == Contestant.OWN_KERNELS.value else found.known_ns(schedule),
        )
        for name, schedule in distinct.items()
    }


def fitting_racers(
    racers: Mapping[Contestant, Racer], sequential_ns: int, call: MeasuringCall
) -> dict[Contestant, Racer]:
    """Contestants that the time budget has a race for; the others are told.

    What was set aside for the race is free from now on. A run takes about ``sequential_ns``.
    """
    call.budget.set_aside(Reserve.RACE, 0.0)
    first = call.answers.first
    chosen = fitting(
        racers,
        call.budget.spare_s,
        sequential_ns,
        call.compare,
        made_s=0.0 if first is None else first.made_s,
    )
    left = [who.value for who in racers if who not in chosen]
    if left:
        call.budget.cut(f"the last race was without {', '.join(left)}")
    return {who: racer for who, racer in racers.items() if who in chosen}


def compiled_racers(
    racers: Mapping[Contestant, Racer], call: MeasuringCall
) -> dict[Contestant, CompiledModel]:
    """Compiled contestants, with the records in force; later calls return the same models."""
    with call.stage("lower", call.to_prepare()):
        return {who: racer.compiled() for who, racer in racers.items()}


def run_last_race(
    racers: Mapping[Contestant, Racer], session: MeasuringSession, call: MeasuringCall
) -> Comparison:
    """Race of the contestants, or an equal one of an earlier call.

    Of a network whose runs take too long for the time budget, sequential order is timed alone.
    """
    options = call.compare
    identity = race_identity(racers, options)
    target = next(iter(racers.values())).built.prepared.target
    races = KnownRaces(call.database, call.context(target))
    with call.stage("lower", call.to_prepare()):
        known = _known_race(racers, identity if options.reuse else None, races)
    if known is not None:
        with call.clock.phase("compare"):  # every report has this phase
            return known
    call.budget.set_aside(Reserve.RACE, 0.0)
    models = compiled_racers(racers, call)
    named = {who.value: model for who, model in models.items()}
    plans = {name: _digest(model.plan) for name, model in named.items()}
    begun = None if identity is None or not options.reuse else races.begun(identity, plans)
    call.database.use.measure(Remembered.RACE, [identity or "without an identity"])
    with (
        call.stage("compare", call.to_profile) as granted,
        session.in_stage(granted.address),
    ):
        # However long the steps before have waited, half of the patience is left for this race.
        session.patience.begin_last_race()
        run = partial(
            race, options=options, until_decided=True, budget=call.budget, session=session
        )
        cuts = call.budget.cuts
        try:
            raced = run(named, earlier=() if begun is None else begun.undisturbed_rounds)
        except OutOfTimeError as error:
            call.budget.cut(f"the last race was not run: {error}")
            base = Contestant.SEQUENTIAL.value
            raced, begun = run({base: named[base]}), None
    if begun is not None:
        raced = replace(raced, notes=(*begun.notes, *raced.notes))
    if not raced.is_settled:
        call.database.use.doubtful = True
    # A race that was cut short is no answer for calls with more time.
    if identity is not None and call.budget.cuts == cuts:
        races.keep(identity, KnownRace(comparison=raced, plans=plans))
    return raced


def race_identity(racers: Mapping[Contestant, Racer], options: CompareOptions) -> str | None:
    """Digest of everything that a race depends on besides device and lanes; None if unknown.

    Each contestant's graph with the code of every kernel and the libraries that may compute, its
    schedule, and how races are run. Kernels of merged stages follow from these, as they do for
    prices; values of parameters do not count. None where some kernel's code is not known.
    """
    contestants = []
    for who, racer in racers.items():
        staged = racer.built.kernels.staged
        symbols = sorted({each.kernel for each in staged.graph.operators if each.kernel})
        if not set(symbols) <= staged.kernel_keys.keys():
            return None
        code = [staged.kernel_keys[symbol] for symbol in symbols]
        # In how many parts a call runs is not asked: plans say it, and _known_race() compares them.
        code += [library.identity() for library in racer.built.libraries]
        contestants.append(
            (who.value, repr(staged.graph), code, racer.records, racer.schedule.to_json())
        )
    # Whether earlier races count says nothing about how this one is run.
    asked = {name: value for name, value in asdict(options).items() if name != "reuse"}
    return digest_of([RACE_PROTOCOL, contestants, asked])


def _known_race(
    racers: Mapping[Contestant, Racer], identity: str | None, races: KnownRaces
) -> Comparison | None:
    """Equal race of an earlier call, whose winner is compiled; None where one has to be run."""
    if identity is None:
        return None
    known = races.known(identity, tuple(who.value for who in racers))
    if known is None:
        return None
    kept = choose(known.comparison, {who: who.value for who in racers}).kept
    is_equal = _digest(racers[kept].compiled().plan) == known.plans[kept.value]
    return known.comparison if is_equal else None


def _digest(plan: ExecutionPlan) -> str:
    return digest_of(image_bytes(plan).hex())


def evidence_of(
    raced: Comparison,
    racers: Mapping[Contestant, Racer],
    session: MeasuringSession,
    call: MeasuringCall,
    curve: tuple[CurvePoint, ...],
    deadlines_ms: Mapping[str, float] = MappingProxyType({}),
) -> Evidence:
    """Choice of the contestant to keep, with its measurements and traced runs, made now.

    Deadlines are those of parts.
    """
    names = {who: who.value for who in racers if who.value in raced.names}
    promised_ns = {who: racers[who].promised_ns for who in names}
    promised = {who: run_ns for who, run_ns in promised_ns.items() if run_ns is not None}
    deadlines: dict[Contestant, tuple[PartDeadline, ...]] = {}
    if deadlines_ms:
        models = {who: racers[who].compiled() for who in names}
        with (
            call.stage("compare", call.to_profile) as granted,
            session.in_stage(granted.address),
        ):
            deadlines = measured_deadlines(models, raced, session, call.answers.parts, deadlines_ms)
        choice = choose_in_time(raced, names, promised, deadlines)
    else:
        choice = choose(raced, names, promised)
    if len(names) == 1 and call.budget.cuts:
        reason = "nothing else was raced within the time budget (the full report says why)"
        choice = replace(choice, reason=reason)
    kept = choice.kept
    traced = TracedRuns()
    needed_s = RUNS_FOR_TRACES * raced.median_ns(kept.value) / 1e9
    if call.budget.allows(needed_s) or (needed_s < SHORT_S and not call.budget.is_limited):
        # No phase of its own: like the race, it times whole networks.
        with (
            call.stage("compare", call.to_profile) as granted,
            session.in_stage(granted.address),
        ):
            traced = _traced_runs(racers[kept].compiled(), session)
    else:
        call.budget.cut("no run was traced, so stages have predicted times only")
    return Evidence(
        kept=kept.value,
        outcome=choice.outcome,
        reason=choice.reason,
        race=raced,
        lanes=call.lanes,
        prices_ns=racers[kept].prices_ns,
        traced=traced,
        curve=curve,
        phase_s=dict(call.clock.phase_s),
        deadlines=deadlines.get(kept, ()),
    )


def _traced_runs(model: CompiledModel, session: MeasuringSession) -> TracedRuns:
    """Time the launches of a model on the device of a session, on made-up inputs."""
    with executors_of({model.schedule.scheduler: model}, session) as executors:
        (executor,) = executors.values()
        executor.trace(WARM_UP)
        traces = [executor.trace(2) for _ in range(TRACES)]
    return TracedRuns.of(traces, model.schedule)
