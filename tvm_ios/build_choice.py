"""Which of several builds of one model is scheduled.

A kernel that wins alone may lose in its network, and so may padded channels. So whole networks are
timed, and the first build stays unless another one is faster beyond the noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm

from tvm_ios.compiled import BuiltModel, build_model, lower_schedule
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.cost.compare import CompareOptions
from tvm_ios.cost.comparison import Verdict
from tvm_ios.devices.protocol import MeasuringDevice
from tvm_ios.progress import PhaseClock
from tvm_ios.relay.channel_padding import pad_channels
from tvm_ios.scheduling import race
from tvm_ios.search.baselines import sequential_schedule

__all__ = ["ChosenBuild", "build_for_schedule", "build_padded_or_not", "choose_build"]

AS_IT_IS, PADDED = "channels as they are", "padded channels"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenBuild:
    """A model, possibly with padded channels, and its build."""

    mod: tvm.IRModule
    params: Mapping[str, Any] | None
    """Of ``mod``; bound, and so None, where channels were padded."""
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
) -> ChosenBuild:
    """Build a model; where channels fill no whole vectors, also with padded ones, and keep one.

    Parameters
    ----------
    mod, params, target
        As for :func:`tvm_ios.compiled.build_model`.
    clock
        Told of the phases ``build``, ``build padded`` and ``check padded``.
    name
        Name of the operator graph.
    lanes
        Lanes the network is timed on.
    device
        Where the builds are timed.
    pad
        False leaves channels as they are.
    compare_options
        How they are timed.

    Raises
    ------
    ModelError, OptionError
        As :func:`tvm_ios.compiled.build_model`.
    """
    with clock.phase("build"):
        built = build_model(mod, params, target, name=name)
    as_it_is = ChosenBuild(mod=mod, params=params, built=built)
    if not pad:
        return as_it_is
    padded_mod, padded = pad_channels(mod, params, built.prepared.target)
    if not padded:
        return as_it_is
    with clock.phase("build padded"):
        padded_built = build_model(padded_mod, None, built.prepared.target, name=name)
    with clock.phase("check padded"):
        builds = {AS_IT_IS: built, PADDED: padded_built}
        best, notes = choose_build(builds, lanes=lanes, options=compare_options, device=device)
    if best == AS_IT_IS:
        return ChosenBuild(mod=mod, params=params, built=built, notes=tuple(notes))
    notes.append(f"the output channels of {padded} convolutions were padded to whole vectors")
    return ChosenBuild(
        mod=padded_mod, params=None, built=padded_built, padded=padded, notes=tuple(notes)
    )


def build_for_schedule(
    mod: tvm.IRModule,
    params: Mapping[str, Any] | None,
    target: Any,
    schedule: InterOpSchedule | None,
) -> BuiltModel:
    """Build a model, with padded channels where it was scheduled so.

    Raises
    ------
    ModelError, OptionError
        As :func:`tvm_ios.compiled.build_model`.
    """
    built = build_model(mod, params, target)
    if schedule is None or schedule.graph_fingerprint == built.graph.fingerprint():
        return built
    padded_mod, padded = pad_channels(mod, params, built.prepared.target)
    if padded:
        padded_built = build_model(padded_mod, None, built.prepared.target)
        if schedule.graph_fingerprint == padded_built.graph.fingerprint():
            return padded_built
    return built


def choose_build(
    builds: Mapping[str, BuiltModel],
    *,
    lanes: int,
    device: MeasuringDevice,
    options: CompareOptions | None = None,
) -> tuple[str, list[str]]:
    """The fastest build if it beats the first one beyond the noise, else the first one.

    Each runs in sequential order, with one lane and with all that help: small networks are faster
    with one, and the better of the two is what counts. On a GPU there is one stream.

    Parameters
    ----------
    builds
        By name, all of one network.
    lanes
        Most lanes they are timed on.
    device
        Where they are timed.
    options
        How they are timed.

    Returns
    -------
    name, notes
        The notes say how fast the others are, for people.
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
        comparison = race(models, options=options, session=session)
    fastest = {name: min(_of(name, runs), key=comparison.median_ns) for name in builds}
    speedups = {name: comparison.speedup(fastest[name], over=fastest[base]) for name in others}
    notes = [
        f"{name}: {found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}) times as fast in "
        f"sequential order as {base}"
        for name, found in speedups.items()
    ]
    best = min(builds, key=lambda name: comparison.median_ns(fastest[name]))
    kept = best if best != base and speedups[best].verdict is Verdict.WINS else base
    return kept, notes


def _of(name: str, runs: Mapping[tuple[str, int], str]) -> Sequence[str]:
    """What the runs of one build are called."""
    return [text for (build, _), text in runs.items() if build == name]
