"""Which of several builds of one model is scheduled.

A kernel that wins alone may lose in its network, and so may padded channels. So whole networks are
timed, and the first build stays unless another one is faster beyond the noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm

from tvm_ios.compile.model import BuiltModel, build_model, lower_schedule
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.database import ProfileDatabase
from tvm_ios.cost.known_choices import BuildChoice, KnownChoices
from tvm_ios.devices.protocol import MeasuringDevice
from tvm_ios.host import host_target
from tvm_ios.measure.compare import CompareOptions
from tvm_ios.measure.comparison import Verdict
from tvm_ios.profile.prices import profile_context
from tvm_ios.profile.race import race
from tvm_ios.relay.channel_padding import pad_channels
from tvm_ios.relay.context import model_digest
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.search.baselines import sequential_schedule
from tvm_ios.support.progress import PhaseClock
from tvm_ios.support.time_budget import TimeBudget

__all__ = [
    "ChosenBuild",
    "build_for_schedule",
    "build_padded_or_not",
    "choose_build",
    "known_choices",
]

SHARE_OF_BUILDING = 4
"""A second build, a race and the search after it take so many times as long as the first build."""
AS_IT_IS, PADDED = "channels as they are", "padded channels"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenBuild:
    """A model, possibly with padded channels, and its build."""

    mod: tvm.IRModule
    params: Mapping[str, Any] | None
    """Parameters of ``mod``; bound, and so None, where channels were padded."""
    built: BuiltModel
    padded: int = 0
    """Convolutions whose channels were padded."""
    notes: tuple[str, ...] = ()


def build_padded_or_not(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    clock: PhaseClock,
    *,
    name: str = "main",
    lanes: int,
    device: MeasuringDevice,
    pad: bool = True,
    compare_options: CompareOptions | None = None,
    budget: TimeBudget | None = None,
    database: ProfileDatabase | None = None,
) -> ChosenBuild:
    """Build a model; where channels fill no whole vectors, also with padded ones, and keep one.

    Parameters
    ----------
    clock
        Told of the phases ``build``, ``build padded`` and ``check padded``.
    pad
        False leaves channels as they are.
    budget
        Of the whole call; what is left of it has to allow as much again as building took, and more.
    database
        Where it is kept which build was faster; a build that lost before is not made again.
    """
    budget = budget or TimeBudget()
    begin_s = budget.spent_s
    chosen_target = resolve_target(target if target is not None else host_target())
    choices = known_choices(database, chosen_target, lanes, device)
    question = f"padded channels of {model_digest(mod, params)}" if pad else ""
    known = choices.known(question) if pad else None
    if known is not None and known.kept == PADDED:
        padded_mod, padded = pad_channels(mod, params, chosen_target)
        with clock.phase("build"):
            built = build_model(padded_mod, None, chosen_target, name=name)
        return _padded(padded_mod, padded, built, known)
    with clock.phase("build"):
        built = build_model(mod, params, chosen_target, name=name)
    build_s = budget.spent_s - begin_s
    as_it_is = ChosenBuild(mod=mod, params=params, built=built)
    if known is not None:
        return replace(as_it_is, notes=known.notes)
    if not pad:
        return as_it_is
    padded_mod, padded = pad_channels(mod, params, built.prepared.target)
    if not padded:
        return as_it_is
    if not budget.allows(SHARE_OF_BUILDING * build_s):
        budget.cut(f"padding the channels of {padded} convolutions was not tried")
        return as_it_is
    with clock.phase("build padded"):
        padded_built = build_model(padded_mod, None, built.prepared.target, name=name, like=built)
    with clock.phase("check padded"):
        builds = {AS_IT_IS: built, PADDED: padded_built}
        choice = choose_build(builds, lanes=lanes, options=compare_options, device=device)
        choices.keep(question, choice)
    if choice.kept == AS_IT_IS:
        return replace(as_it_is, notes=choice.notes)
    return _padded(padded_mod, padded, padded_built, choice)


def known_choices(
    database: ProfileDatabase | None,
    target: tvm.target.Target,
    lanes: int,
    device: MeasuringDevice,
) -> KnownChoices:
    """Choices between builds that were made under the records in force, as prices are kept."""
    return KnownChoices(database, profile_context(target, lanes, device))


def _padded(
    module: tvm.IRModule, count: int, built: BuiltModel, choice: BuildChoice
) -> ChosenBuild:
    told = f"the output channels of {count} convolutions were padded to whole vectors"
    return ChosenBuild(
        mod=module, params=None, built=built, padded=count, notes=(*choice.notes, told)
    )


def build_for_schedule(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    schedule: InterOpSchedule | None,
) -> BuiltModel:
    """Build a model, with padded channels where it was scheduled so."""
    built = build_model(mod, params, target)
    if schedule is None or schedule.graph_fingerprint == built.graph.fingerprint():
        return built
    padded_mod, padded = pad_channels(mod, params, built.prepared.target)
    if padded:
        padded_built = build_model(padded_mod, None, built.prepared.target, like=built)
        if schedule.graph_fingerprint == padded_built.graph.fingerprint():
            return padded_built
    return built


def choose_build(
    builds: Mapping[str, BuiltModel],
    *,
    lanes: int,
    device: MeasuringDevice,
    options: CompareOptions | None = None,
) -> BuildChoice:
    """The fastest build if it beats the first one beyond the noise, else the first one.

    Each runs in sequential order, with one lane and with all that help: small networks are faster
    with one, and the better of the two is what counts. On a GPU there is one stream.

    Parameters
    ----------
    builds
        By name, all of one network.
    lanes
        Most lanes they are timed on.
    options
        How they are timed.
    """
    base, *others = builds
    runs = {
        # All lanes first: the first contestant's ping-pong tells of the machine's mode.
        (name, count): f"{name}, lanes: {count}"
        for count in ({lanes: None, 1: None} if device.traits.idle_lanes_help else (1,))
        for name in builds
    }
    models = {
        text: lower_schedule(builds[name], sequential_schedule(builds[name].graph), lanes=count)
        for (name, count), text in runs.items()
    }
    with device.open() as session:
        comparison = race(models, options=options, until_decided=True, session=session)
    fastest = {name: min(_of(name, runs), key=comparison.median_ns) for name in builds}
    speedups = {name: comparison.speedup(fastest[name], over=fastest[base]) for name in others}
    notes = [
        f"{name}: {found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}) times as fast in "
        f"sequential order as {base}"
        for name, found in speedups.items()
    ]
    best = min(builds, key=lambda name: comparison.median_ns(fastest[name]))
    kept = best if best != base and speedups[best].verdict is Verdict.WINS else base
    return BuildChoice(kept=kept, notes=tuple(notes), certain=comparison.is_quiet)


def _of(name: str, runs: Mapping[tuple[str, int], str]) -> Sequence[str]:
    """Names of the runs of one build."""
    return [text for (build, _), text in runs.items() if build == name]
