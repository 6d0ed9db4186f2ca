"""Races of whole networks, which alone decide what is kept.

Prices of single stages leave out the effect of one stage on the caches of the next, so no schedule
counts as faster before it has been timed against sequential order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.devices.protocol import MeasuringSession, TimedExecutor
from tvm_ios.errors import OutOfTimeError
from tvm_ios.measure.compare import EARLY_LOOKS, LONG_RUN_NS, CompareOptions, compare
from tvm_ios.measure.comparison import (
    CompareRound,
    Comparison,
    Outcome,
    Speedup,
    Verdict,
    least_rounds,
)
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.measure.sampling import TimedRuns
from tvm_ios.report.labels import with_interval
from tvm_ios.report.tune_report import Contestant
from tvm_ios.runtime.base.sample_inputs import sample_inputs
from tvm_ios.support.time_budget import TimeBudget

__all__ = [
    "VARIANT_RACE",
    "Choice",
    "choose",
    "compiled_for",
    "executors_of",
    "looks_s",
    "race",
    "race_s",
    "round_s",
    "variant_race",
]

VARIANT_RACE = CompareOptions(rounds=9, min_repeat_ms=2.0, mode=ModeOptions(patience_s=5.0))
"""Options of races between variants of a schedule before the last race: short ones."""
NEARLY = 0.98
"""Speedup over sequential order that the whole interval of a promising schedule has to reach where
the race is undecided."""


def compiled_for(
    session: MeasuringSession,
    built: BuiltModel,
    schedule: InterOpSchedule,
    *,
    lanes: int,
    database: ProfileDatabase | None = None,
) -> CompiledModel:
    """Compiled schedule, with all that operator libraries find out of their calls on a device.

    They store it in the database, unless the session has one already.
    """
    model = lower_schedule(built, schedule, lanes=lanes)
    return replace(model, plan=session.libraries(database).complete(model.plan))


def race(
    models: Mapping[str, CompiledModel],
    others: Mapping[str, TimedRuns] | None = None,
    *,
    options: CompareOptions | None = None,
    session: MeasuringSession,
    until_decided: bool = False,
    budget: TimeBudget | None = None,
    earlier: Sequence[CompareRound] = (),
) -> Comparison:
    """Time models of one network, and others, against each other on the same inputs, interleaved.

    Parameters
    ----------
    others
        More contestants by name, with inputs set; timed before the models in a round.
    until_decided
        True may end the race once the fastest one is known.
    budget
        Time budget of the call, with which the race ends.
    earlier
        Undisturbed rounds of the same race that are known, with which it begins.
    """
    with executors_of(models, session) as executors:
        timed = {name: executor.time_ns for name, executor in executors.items()}
        ping_pong_ns = next(iter(executors.values())).ping_pong_ns
        return compare(
            {**(others or {}), **timed},
            options=options,
            until_decided=until_decided,
            budget=budget,
            earlier=earlier,
            ping_pong_ns=ping_pong_ns,
            waits=[executor.waited_ns for executor in executors.values()],
            patience=session.patience,
        )


def variant_race(
    models: Mapping[str, CompiledModel], budget: TimeBudget, session: MeasuringSession
) -> Comparison | None:
    """Short race between variants of a schedule; None where the time budget has none for it."""
    try:
        return race(
            models, options=VARIANT_RACE, until_decided=True, budget=budget, session=session
        )
    except OutOfTimeError:
        return None


@contextmanager
def executors_of(
    models: Mapping[str, CompiledModel], session: MeasuringSession
) -> Iterator[dict[str, TimedExecutor]]:
    """Context with models of one network ready to run on a session's device, with equal inputs."""
    with ExitStack() as stack:
        executors: dict[str, TimedExecutor] = {}
        for name, model in models.items():
            executors[name] = session.executor(model)
            stack.callback(executors[name].close)
        first = next(iter(models.values()))
        inputs = sample_inputs(first.plan, first.kernels.params)
        for executor in executors.values():
            for name, value in inputs.items():
                executor.set_input(name, value)
        yield executors


def round_s(run_ns: float, options: CompareOptions, *, contestants: int) -> float:
    """Estimated seconds of a round in a race that chooses, warm-up included."""
    warmup = 0 if run_ns >= LONG_RUN_NS else options.warmup
    return contestants * (_sample_s(run_ns, options) + warmup * run_ns / 1e9)


def looks_s(run_ns: float, options: CompareOptions, *, contestants: int) -> float:
    """Estimated seconds of a race before its rounds: a run and a sample of each."""
    return contestants * (_sample_s(run_ns, options) + run_ns / 1e9)


def _sample_s(run_ns: float, options: CompareOptions) -> float:
    return max(run_ns * options.number / 1e9, options.min_repeat_ms / 1e3)


def race_s(run_ns: float, options: CompareOptions, *, contestants: int = 4) -> float:
    """Estimated seconds of a race of such runs that chooses, if nothing ends it early."""
    each_s = round_s(run_ns, options, contestants=contestants)
    is_long = each_s >= options.longest_s
    least = least_rounds(options.confidence) if is_long else EARLY_LOOKS[0]
    rounds_s = min(options.rounds * each_s, max(options.longest_s, least * each_s))
    return looks_s(run_ns, options, contestants=contestants) + rounds_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Contestant to keep after a race, with the outcome and the reason."""

    kept: Contestant
    outcome: Outcome
    reason: str
    """Sentence for people."""


def choose(
    comparison: Comparison,
    names: Mapping[Contestant, str],
    promised_ns: Mapping[Contestant, int] = MappingProxyType({}),
) -> Choice:
    """Contestant to keep: the fastest of those that beat sequential order beyond the noise.

    Where the race is undecided, the one whose prices promise the most is kept, if it is as fast as
    sequential order within two per cent at the lower end of its interval, too. Else sequential
    order is, which has to be among the names. Promised are the nanoseconds of a run.
    """
    base = names[Contestant.SEQUENTIAL]
    speedups: dict[Contestant, Speedup] = {
        who: comparison.speedup(name, over=base)
        for who, name in names.items()
        if who is not Contestant.SEQUENTIAL
    }
    outcome = comparison.outcome(over=base, among=names.values())
    tried = ", ".join(f"{who.value} {_times_as_fast(found)}" for who, found in speedups.items())
    kept = Contestant.SEQUENTIAL
    if outcome is Outcome.FASTER:
        winners = [who for who, found in speedups.items() if found.verdict is Verdict.WINS]
        fastest = comparison.fastest(names[who] for who in winners)
        kept = next(who for who in winners if names[who] == fastest)
        reason = f"{_times_as_fast(speedups[kept])} times as fast as sequential order"
    elif outcome is Outcome.UNDECIDED:
        kept = _promising(speedups, promised_ns)
        cause = comparison.disturbance or f"it had {len(comparison.rounds)} rounds only"
        why = "nothing is surely as fast as sequential order"
        if kept is not Contestant.SEQUENTIAL:
            why = "its prices promise the most, and it is hardly slower at worst"
        reason = (
            f"undecided, for {cause}; {why} (times as fast: {tried}); a later "
            "call goes on with this race"
        )
    elif speedups:
        reason = (
            "no gain: nothing is faster than sequential order beyond the noise (times as fast: "
            f"{tried})"
        )
    else:
        reason = "the search found nothing but sequential order"
    return Choice(kept=kept, outcome=outcome, reason=reason)


def _promising(
    speedups: Mapping[Contestant, Speedup], promised_ns: Mapping[Contestant, int]
) -> Contestant:
    """Contestant with the shortest promised run, if it is hardly slower than sequential order."""
    promised = {who: ns for who, ns in promised_ns.items() if who in speedups}
    best = min(promised, key=promised.__getitem__, default=Contestant.SEQUENTIAL)
    in_order_ns = promised_ns.get(Contestant.SEQUENTIAL, math.inf)
    if best in promised and promised[best] < in_order_ns and speedups[best].low >= NEARLY:
        return best
    return Contestant.SEQUENTIAL


def _times_as_fast(found: Speedup) -> str:
    return with_interval(found.ratio, found.low, found.high)
