"""The race that ends a call: run once for everything it depends on, then known like a price.

Where an earlier call ran it, only the schedule that was kept is compiled. Its plan has to be the
one that raced, which a change of the lowering shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.known_races import KnownRace, KnownRaces
from tvm_ios.cost.profile_key import digest_of
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import Comparison
from tvm_ios.profile.race import choose, race
from tvm_ios.report.tune_report import Contestant

__all__ = ["RaceEnd", "Racer", "known_end", "race_identity", "raced_end"]

RACE_PROTOCOL = 3
"""Goes up when races are run or ended in another way, which no option tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Racer:
    """A contestant, before its schedule is compiled."""

    built: BuiltModel
    schedule: InterOpSchedule
    records: str
    """Digest of the tuning records it is compiled under, for kernels of merged stages."""
    compiled: Callable[[], CompiledModel]
    """Compiles it when it is first asked for; asked again, gives the same model."""
    prices_ns: tuple[int | None, ...] = ()
    """Prices of its stages that are known; empty where other kernels run than were priced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceEnd:
    """The outcome of the race that ends a call."""

    comparison: Comparison
    kept: Contestant
    reason: str
    """A sentence for people: why this one is kept."""
    model: CompiledModel
    """The one that is kept."""


def race_identity(racers: Mapping[Contestant, Racer], options: CompareOptions) -> str | None:
    """A digest of all that a race depends on besides device and lanes.

    That is the graph of each contestant with the code of every kernel and the libraries that may
    compute operators, its schedule, and how races are run. Kernels of merged stages follow from
    these, as they do for prices; the values of parameters do not count. None where it is not known
    exactly which code runs.
    """
    contestants = []
    for who, racer in racers.items():
        staged = racer.built.kernels.staged
        symbols = sorted({each.kernel for each in staged.graph.operators if each.kernel})
        if not set(symbols) <= staged.kernel_keys.keys():
            return None
        code = [staged.kernel_keys[symbol] for symbol in symbols]
        # In how many parts a call runs is not asked: plans say it, and known_end() compares them.
        code += [library.identity() for library in racer.built.libraries]
        contestants.append(
            (who.value, staged.graph_json, code, racer.records, racer.schedule.to_json())
        )
    asked = {name: value for name, value in asdict(options).items() if name != "reuse"}
    return digest_of([RACE_PROTOCOL, contestants, asked])


def known_end(
    racers: Mapping[Contestant, Racer], identity: str | None, races: KnownRaces
) -> RaceEnd | None:
    """The outcome that an earlier call found; None where there has to be a race."""
    if identity is None:
        return None
    known = races.known(identity, tuple(who.value for who in racers))
    if known is None:
        return None
    kept, reason = choose(known.comparison, {who: who.value for who in racers})
    model = racers[kept].compiled()
    if digest_of(model.plan.to_json()) != known.plans[kept.value]:
        return None
    return RaceEnd(comparison=known.comparison, kept=kept, reason=reason, model=model)


def raced_end(
    models: Mapping[Contestant, CompiledModel],
    *,
    options: CompareOptions,
    session: MeasuringSession,
    keep: Callable[[KnownRace], None],
) -> RaceEnd:
    """The outcome of a race, which is over when it is decided.

    The last word is worth a wait for the machine's fast mode of its own, whatever the search has
    waited.

    Parameters
    ----------
    models, options, session
        As for :func:`~tvm_ios.profile.race.race`.
    keep
        Told of the race, for later calls.
    """
    session.patience.renew()
    comparison = race(
        {who.value: model for who, model in models.items()},
        options=options,
        until_decided=True,
        session=session,
    )
    plans = {who.value: digest_of(model.plan.to_json()) for who, model in models.items()}
    keep(KnownRace(comparison=comparison, plans=plans))
    kept, reason = choose(comparison, {who: who.value for who in models})
    return RaceEnd(comparison=comparison, kept=kept, reason=reason, model=models[kept])
