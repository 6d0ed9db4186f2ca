"""Which of several builds of one model is scheduled.

A kernel that wins alone may lose in its network, and so may another layout or padded channels. So
whole networks are timed, and the first build stays unless another one is faster beyond the noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm

from tvm_ios.compile.model import BuiltModel, build_prepared
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.known_choices import BuildChoice, KnownChoices
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.devices.protocol import MeasuringDevice, MeasuringSession
from tvm_ios.devices.targets import require_known_target, traits_for_target
from tvm_ios.host import host_target
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import Verdict
from tvm_ios.profile.build_candidates import (
    BuildCandidate,
    all_candidates,
    changes_for,
)
from tvm_ios.profile.find_schedules import settle_splits
from tvm_ios.profile.prices import KernelPrices, profile_context
from tvm_ios.profile.race import compiled_for, race
from tvm_ios.profile.stage_kernels import RelayStageRunner
from tvm_ios.relay.extract import extract
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.prepare import prepare
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.search.baselines import sequential_schedule

__all__ = [
    "build_for_schedule",
    "choose_build",
    "in_order",
    "known_choices",
    "with_libraries",
]


def known_choices(
    database: ProfileDatabase | None,
    target: tvm.target.Target,
    lanes: int,
    device: MeasuringDevice,
) -> KnownChoices:
    """Choices between builds that were made under the records in force, as prices are kept."""
    return KnownChoices(database, profile_context(target, lanes, device))


def with_libraries(question: str, libraries: Sequence[OperatorLibrary]) -> str:
    """A question to known choices, whose answer depends on the libraries that may compute."""
    return " with ".join((question, *(library.identity() for library in libraries)))


def in_order(
    built: BuiltModel,
    session: MeasuringSession,
    *,
    lanes: int,
    measure: MeasureOptions | None = None,
    database: ProfileDatabase | None = None,
) -> InterOpSchedule:
    """Sequential order, each operator by the library that was found to be faster, if any is."""
    schedule = sequential_schedule(built.graph)
    if not built.libraries:
        return schedule
    with RelayStageRunner(built, lanes=lanes, session=session, database=database) as runner:
        prices = KernelPrices(runner, database=database, options=measure)
        try:
            settle_splits(prices)
        finally:
            prices.save()
        return prices.annotate(schedule)


def build_for_schedule(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    schedule: InterOpSchedule | None,
) -> BuiltModel:
    """Build a model in the form that a schedule was found for; as it is where there is none."""
    chosen_target = resolve_target(target if target is not None else host_target())
    require_known_target(chosen_target)
    plain = prepare(mod, params, chosen_target)
    if schedule is None:
        return build_prepared(plain)
    changes = changes_for(traits_for_target(chosen_target))
    as_it_is = BuildCandidate(mod=mod, params=params)
    for candidate in all_candidates(as_it_is, changes, chosen_target):
        prepared = plain if candidate is as_it_is else prepare(candidate.mod, None, chosen_target)
        if extract(prepared.module).graph.fingerprint() == schedule.graph_fingerprint:
            return build_prepared(prepared)
    return build_prepared(plain)


def choose_build(
    builds: Mapping[str, BuiltModel],
    *,
    lanes: int,
    device: MeasuringDevice,
    options: CompareOptions | None = None,
    measure: MeasureOptions | None = None,
    database: ProfileDatabase | None = None,
) -> BuildChoice:
    """The fastest of the builds that beat the first one beyond the noise, else the first one.

    Each runs in sequential order, with one lane and with all that help: small networks are faster
    with one, and the better of the two is what counts. On a GPU there is one stream. Where
    libraries may compute operators of a build they do, each operator as its prices say.

    Parameters
    ----------
    builds
        By name, all of one network.
    lanes
        Most lanes they are timed on.
    options
        How they are timed.
    measure, database
        How operators that libraries may compute are priced, and where the prices are kept.
    """
    base, *others = builds
    runs = {
        # All lanes first: the first contestant's ping-pong tells of the machine's mode.
        (name, count): f"{name}, lanes: {count}"
        for count in ({lanes: None, 1: None} if device.traits.idle_lanes_help else (1,))
        for name in builds
    }
    with device.open() as session:
        orders = {
            name: in_order(built, session, lanes=lanes, measure=measure, database=database)
            for name, built in builds.items()
        }
        models = {
            text: compiled_for(session, builds[name], orders[name], lanes=count, database=database)
            for (name, count), text in runs.items()
        }
        comparison = race(models, options=options, until_decided=True, session=session)
    fastest = {name: min(_of(name, runs), key=comparison.median_ns) for name in builds}
    speedups = {name: comparison.speedup(fastest[name], over=fastest[base]) for name in others}
    notes = [
        f"{name}: {found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}) times as fast in "
        f"sequential order as {base}"
        for name, found in speedups.items()
    ]
    # Round by round, not by medians alone: where times have two modes, those may say the opposite.
    winners = [name for name, found in speedups.items() if found.verdict is Verdict.WINS]
    kept = min(winners, key=lambda name: comparison.median_ns(fastest[name]), default=base)
    return BuildChoice(kept=kept, notes=tuple(notes), certain=comparison.is_quiet)


def _of(name: str, runs: Mapping[tuple[str, int], str]) -> Sequence[str]:
    """Names of the runs of one build."""
    return [text for (build, _), text in runs.items() if build == name]
