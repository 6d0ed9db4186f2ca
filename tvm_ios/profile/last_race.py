"""The race that ends a call: run once for equal conditions, then known like a price.

If an earlier call ran it, only the kept schedule is compiled. Its plan has to be the one that
raced, which shows changes of the lowering.
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
from tvm_ios.plan.image import image_bytes
from tvm_ios.profile.race import choose, race
from tvm_ios.report.tune_report import Contestant

__all__ = ["RaceEnd", "Racer", "known_end", "race_identity", "raced_end"]

RACE_PROTOCOL = 3
"""Version of how races are run and ended, beside their options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Racer:
    """A contestant, before its schedule is compiled."""

    built: BuiltModel
    schedule: InterOpSchedule
    records: str
    """Digest of the tuning records it is compiled under, for kernels of merged stages."""
    compiled: Callable[[], CompiledModel]
    """Returns the compiled contestant; the same model each time."""
    prices_ns: tuple[int | None, ...] = ()
    """Known prices of its stages in nanoseconds; empty where other kernels run than were priced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceEnd:
    """Outcome of the race that ends a call."""

    comparison: Comparison
    kept: Contestant
    reason: str
    """Sentence for people: why this contestant is kept."""
    model: CompiledModel
    """Compiled model of the kept contestant."""


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
        # In how many parts a call runs is not asked: plans say it, and known_end() compares them.
        code += [library.identity() for library in racer.built.libraries]
        contestants.append(
            (who.value, staged.graph_json, code, racer.records, racer.schedule.to_json())
        )
    # Whether earlier races count says nothing about how this one is run.
    asked = {name: value for name, value in asdict(options).items() if name != "reuse"}
    return digest_of([RACE_PROTOCOL, contestants, asked])


def known_end(
    racers: Mapping[Contestant, Racer], identity: str | None, races: KnownRaces
) -> RaceEnd | None:
    """Outcome of an equal race of an earlier call; None where a race has to be run."""
    if identity is None:
        return None
    known = races.known(identity, tuple(who.value for who in racers))
    if known is None:
        return None
    kept, reason = choose(known.comparison, {who: who.value for who in racers})
    model = racers[kept].compiled()
    if digest_of(image_bytes(model.plan).hex()) != known.plans[kept.value]:
        return None
    return RaceEnd(comparison=known.comparison, kept=kept, reason=reason, model=model)


def raced_end(
    models: Mapping[Contestant, CompiledModel],
    *,
    options: CompareOptions,
    session: MeasuringSession,
    keep: Callable[[KnownRace], None],
) -> RaceEnd:
    """Outcome of a race, which ends when it is decided; ``keep`` gets it, for later calls.

    It may wait anew for the machine's fast mode, however long the search has waited.
    """
    session.patience.renew()
    comparison = race(
        {who.value: model for who, model in models.items()},
        options=options,
        until_decided=True,
        session=session,
    )
    plans = {who.value: digest_of(image_bytes(model.plan).hex()) for who, model in models.items()}
    keep(KnownRace(comparison=comparison, plans=plans))
    kept, reason = choose(comparison, {who: who.value for who in models})
    return RaceEnd(comparison=comparison, kept=kept, reason=reason, model=models[kept])
