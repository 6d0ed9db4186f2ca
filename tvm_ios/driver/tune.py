"""``tune``: takes a model to a measured schedule that runs.

It prepares and builds, searches with measured prices, then races against sequential order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.parts import Part, parts_named
from tvm_ios.cost.call_database import database_for_call
from tvm_ios.cost.database import ProfileDatabase, open_database
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.devices.local import LocalCpu
from tvm_ios.devices.protocol import MeasuringDevice, MeasuringSession
from tvm_ios.devices.targets import local_device
from tvm_ios.driver.ceiling import Arithmetic, module_graph, told_ceiling
from tvm_ios.driver.code_ahead import compile_code_ahead
from tvm_ios.driver.effort import Effort
from tvm_ios.driver.given_inputs import arrays_of, require_inputs
from tvm_ios.driver.kept.kept_call import KeptCall
from tvm_ios.driver.kept.tune_call import TuneCall, budget_of_call
from tvm_ios.driver.options import DEFAULTS, TuneOptions, options_of_call, require_options
from tvm_ios.driver.part_contestant import part_contestant
from tvm_ios.driver.several import are_several, joined
from tvm_ios.driver.taken_rest import taken_rest
from tvm_ios.driver.tune_steps import UNTUNED, TuneSteps
from tvm_ios.errors import OptionError
from tvm_ios.host import default_lanes
from tvm_ios.kernels import shared_workers
from tvm_ios.profile.build_candidates import BuildCandidate, changes_for
from tvm_ios.profile.decisions.fit_decisions import DecisionFitting
from tvm_ios.profile.fastest_build import build_fastest
from tvm_ios.profile.find_schedules import schedule_build
from tvm_ios.profile.image_form import form_by_prices
from tvm_ios.profile.in_time.early_answers import EarlyAnswers
from tvm_ios.profile.last_race import (
    Racer,
    compiled_racers,
    evidence_of,
    fitting_racers,
    racers_of,
    run_last_race,
)
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.race import race_s
from tvm_ios.profile.within_memory import MemoryLimit
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.module_attributes import parts_of
from tvm_ios.relay.prepare import converted_model, multiplies_bytes
from tvm_ios.report.tune_report import Contestant
from tvm_ios.runtime.artifact.decisions_file import DecisionFiles, read_given
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.search.options import SearchOptions
from tvm_ios.support.exact_bits import exact_bits
from tvm_ios.support.progress import PhaseClock, ProgressListener
from tvm_ios.support.stage_gate import (
    OpenGate,
    StageGate,
    StageNeed,
    gate_around,
)
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.remote import requested_device
from tvm_ios.tuning.tuned_kernels import TuningRequest, tuned_kernels

__all__ = ["TuneCall", "TuneRace", "measuring_device", "tune", "tune_race", "tuned"]


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


def tune(
    mod: tvm.IRModule | Sequence[Any] | Mapping[str, Any],
    params: Mapping[str, Any] | Sequence[Any] | None = None,
    target: Any = None,
    *,
    share: str | Sequence[str] = (),
    effort: Effort | str | None = None,
    tuning: str | None = None,
    tuning_records: str | Path | Sequence[str | Path] | None = None,
    time_budget: float | TimeBudget | None = None,
    lanes: int | None = None,
    database: ProfileDatabase | str | Path | None = None,
    decisions: DecisionFiles = None,
    precision: str | None = None,
    max_relative_error: float | None = None,
    memory_limit_mb: float | None = None,
    deadlines_ms: Mapping[str, float] | None = None,
    inputs: Mapping[str, Any] | None = None,
    progress: ProgressListener | None = None,
    options: TuneOptions = DEFAULTS,
) -> CompiledModel:
    """Find and compile the fastest inter-operator schedule of a model on this machine.

    AutoTVM and auto_scheduler ``ApplyHistoryBest`` contexts around the call are honoured, and so is
    a ``PassContext``. The IOS schedule, and a list made from it, are timed against the greedy and
    the sequential one; a schedule is returned only if it beats sequential order beyond the noise.

    Parameters
    ----------
    mod
        A Relay module with a ``main`` of static shapes. Or several models, in a list or by name:
        they become one network with a named part for each. Each is a Relay module, a pair of
        one with its parameters, an ONNX model, the name of a network, or a path.
    params
        Parameters by name; of several models a list of these, or those of each by name, None for
        models that bring theirs.
    target
        A CPU target, such as ``"llvm -mcpu=skylake-avx512"``, or ``"cuda"`` for the first GPU of
        this machine; the best for the processor where omitted.
    share
        Inputs that are one for all of several models which have them; others are named
        ``part__input``.
    effort
        ``"quick"`` gives a good answer in seconds, ``"balanced"`` is what ``options`` are by
        default, ``"thorough"`` also tunes kernels and takes up to an hour. For an effort with other
        options on top give ``options=TuneOptions.of("quick", …)`` in its place.
    tuning
        ``"autotvm"`` or ``"auto_scheduler"`` tunes the kernels first, ``"none"`` does not; where
        omitted, as effort or options say.
    tuning_records
        A log of either tuner, or several: their records are used, and new ones go to the first.
        Where omitted, a log in the cache folder. Stock TVM reads and writes the same.
    time_budget
        Seconds of the whole call, or a budget whose clock runs. Preparing and compiling the model
        in sequential order is done in any case; the report says how long that takes. Pricing, other
        forms, kernel tuning, the search and the races take what is left, and the report says what
        was cut.
    lanes
        Threads that run the model, the caller's included; the usable cores where omitted, those of
        the device of an RPC tracker. On a GPU, streams; 8 where omitted.
    database
        A profile database or its file; where omitted, ``profiles.sqlite`` in the cache folder.
    decisions
        A file of another tuning of this model, or several: exported models, what ``tvm-ios
        decisions export`` wrote, or schedules in JSON. What they decide on is built and enters the
        last race; what does not fit is told in the report.
    precision
        ``"bfloat16"`` computes in it what is faster so, on processors that have it and with oneDNN;
        ``"float32"`` does not. Where omitted, as ``options`` say.
    max_relative_error
        Largest error that bfloat16 may cause, 0.03 where nobody says: the largest absolute
        difference of an output from float32, by the output's largest absolute value.
    memory_limit_mb
        Most megabytes (1e6 bytes) of activations that a schedule may plan; less runs at once where
        it needs more. No limit where omitted, or as ``options`` say.
    deadlines_ms
        Milliseconds from the start of a run until which parts of several models are to be done, by
        part. What keeps them goes before what is faster.
    inputs
        Arrays by name of the input, on which that error is checked; made-up ones where omitted.
    progress
        Called with a :class:`~tvm_ios.support.progress.Progress` now and then. Its ``model`` is
        each model that the call has before its end, from a first one in sequential order on.
    options
        Everything else: :class:`~tvm_ios.driver.options.TuneOptions` has fields for the search,
        each kind of measuring, layout and types, operator libraries, padded channels and exact
        bits, the tuners, a remote device, and measuring anew what the database knows.

    Raises
    ------
    ArtifactError, ScheduleError
        If a file of decisions cannot be read.
    TuningError, RecordError
        If a tuner, a tracker or a log of tuning records is missing or unfit.
    CostError
        If a stage cannot be priced, or the device of an RPC tracker is lost. Prices so far are
        kept, and the same call goes on from there.
    ModelError
        If the model cannot be prepared or compiled, or nothing of it can be scheduled.
    OptionError
        If an option has a value nobody can honour.
    HostError
        If the target is a GPU and there is no driver, no GPU, or one that does not run its code; or
        an operator library is named and missing; or bfloat16 is asked for, and oneDNN or the
        processor's arithmetic for it is missing.
    DatabaseError
        If the profile database cannot be read.
    KeyboardInterrupt
        On Ctrl-C. Prices taken so far lie in the database, so the same call goes on from there;
        if there are any, a note on the exception says so. ``progress`` had the best model so far.

    Examples
    --------
    >>> import tvm_ios
    >>> from tvm_ios.models import squeezenet
    >>> mod, params = squeezenet(image_size=64)
    >>> compiled = tvm_ios.tune(mod, params)  # doctest: +SKIP
    >>> print(compiled.report().as_text())  # doctest: +SKIP
    """
    budget = budget_of_call(time_budget)  # first: its clock begins here
    network, weights = _one_network(mod, params, share)
    return tuned(
        TuneCall(
            mod=network,
            params=weights,
            target=target,
            tuning=tuning,
            tuning_records=tuning_records,
            time_budget=budget,
            lanes=lanes,
            database=database,
            decisions=decisions,
            progress=progress,
            inputs=arrays_of(inputs),
            options=options_of_call(
                effort,
                options,
                tuning,
                precision=precision,
                max_relative_error=max_relative_error,
                memory_limit_mb=memory_limit_mb,
                deadlines_ms=deadlines_ms,
            ),
        )
    )


def _one_network(mod: Any, params: Any, share: str | Sequence[str]) -> tuple[Any, Any]:
    """Module and parameters of a call's model, or of the network that its models make."""
    if are_several(mod):
        return joined(mod, params, share=share), {}
    if share:
        raise OptionError(f"share is {share!r}, but there is one model; leave it out")
    return mod, params


def tuned(given: TuneCall) -> CompiledModel:
    """Result of a call of :func:`tune`: the kept one of an equal call, or the winner of a race."""
    call = KeptCall.of(given)
    if (known := call.find()) is not None:
        return known
    raced = tune_race(given)
    return call.keep(raced.kept, certain=raced.certain)


@shared_workers()
def tune_race(given: TuneCall) -> TuneRace:
    """Contestants of a :func:`tune`'s last race and the winner, compiled.

    Errors are those of :func:`tune`.
    """
    options = given.options
    require_options(options)
    if given.inputs is not None:
        _require_use(given.inputs, given)
    if options.search.deadlines_ms:
        parts_named(_parts_of(given), options.search.deadlines_ms)
    with exact_bits(options.build.exact):
        return _tune_race(given)


def _parts_of(given: TuneCall) -> tuple[Part, ...]:
    return parts_of(given.mod) if isinstance(given.mod, tvm.IRModule) else ()


def _tune_race(given: TuneCall) -> TuneRace:
    options, target = given.options, given.target
    conversion, build = options.conversion, options.build
    files = read_given(given.decisions)
    rest = taken_rest(given.mod, options)
    gate = gate_around(OpenGate(most_cores=default_lanes()))
    budget = given.time_budget
    request = TuningRequest.of(
        options.kernels.backend_for(given.tuning),
        given.tuning_records,
        options=options.kernels,
        device=options.device,
        pad_merged_kernels=options.search.pad_merged_kernels,
    )
    resolved = None if target is None else resolve_target(target)
    compile_code_ahead("llvm" if resolved is None else resolved.kind.name)
    choice = LibraryChoice(
        target=resolved,
        names=build.named_libraries,
        tf32=build.tf32,
        dtype=options.precision.dtype,
    )
    device = measuring_device(target, options.device, gate)
    tunes = request is not None and request.backend is not None
    if tunes and conversion.mixed_precision and not device.traits.tunes_float16:
        raise OptionError(
            "mixed_precision=True goes with TVM's own GPU kernels or with cuDNN: TVM's tuners "
            "cannot compile float16 kernels with CUDA 12.8 or newer; leave out tuning"
        )
    libraries = _installed(choice, device, options.device, gate)
    call = MeasuringCall(
        lanes=device.require_lanes(given.lanes),
        device=device,
        database=database_for_call(open_database(given.database), fresh=options.database.fresh),
        clock=PhaseClock(given.progress, spent_s=budget.spent_s),
        gate=gate,
        budget=budget,
        compare=options.compare,
        measure=options.measure,
        answers=EarlyAnswers(
            told=given.progress is not None and not options.device.is_remote,
            needed=budget.is_limited,
            rest=rest,
            parts=_parts_of(given),
        ),
    )
    ceiling = told_ceiling(
        partial(module_graph, given.mod, given.params),
        call.lanes,
        device.traits,
        device.speeds,
        Arithmetic(
            in_bytes=not build.exact and multiplies_bytes(target or device.target),
            in_bfloat16=options.precision.is_low,
        ),
    )
    target = device.target if target is None else target
    with call.gate.stage(call.to_prepare("convert")):
        mod, params = converted_model(given.mod, given.params, target, conversion)
    changes = changes_for(
        device.traits,
        pad_channels=build.pad_channels,
        race_forms=build.race_forms,
        libraries=libraries,
        choose_form=form_by_prices(
            call, libraries, pads=build.pad_channels, precision=options.precision
        ),
    )
    chosen = build_fastest(
        mod,
        params,
        target,
        call,
        changes=() if conversion.changes else changes,
        libraries=libraries,
        records=None if request is None else partial(request.ansor_records, resolve_target(target)),
        all_kernels=build.all_kernels or request is not None,
        precision=options.precision,
        inputs=given.inputs,
    )
    search = options.search.without_merges() if build.exact else options.search
    candidate = chosen.candidate
    if request is not None and tunes and budget.is_over:
        budget.cut("kernels were not tuned, and no records were used")
        request = None
    tuning = (
        nullcontext()
        if request is None
        else tuned_kernels(chosen.built, candidate.mod, candidate.params, request, call)
    )
    with ExitStack() as stack:
        # The records are in force inside, and must not be for the untuned kernels below.
        with tuning as tuned:
            # Not before: tuners wait for a device that is held.
            session = stack.enter_context(call.open())
            built = chosen.built if tuned is None else tuned.built
            memory = MemoryLimit.over(built, search.memory_limit_mb, session, call)
            fitting = DecisionFitting(
                built=built,
                model=None if conversion.changes else BuildCandidate(mod=mod, params=params),
                call=call,
                pad_channels=build.pad_channels,
                pad_merged_kernels=search.pad_merged_kernels,
                precision=options.precision,
                inputs=given.inputs,
            )
            decided = fitting.of(files)
            main = schedule_build(built, session, call, search)
            racers = racers_of(main, session, call)
            # Parts are timed alone on this machine only.
            local_parts = () if options.device.is_remote else call.answers.parts
            racers |= part_contestant(racers, main, local_parts, call)
            racers |= decided.racers(racers, main, session, call)
            racers = fitting_racers(memory.fitting(racers), main.sequential_ns, call)
            if tuned is not None:
                compiled_racers(racers, call)
        if tuned is not None and tuned.layout is not None:
            untuned = _untuned_racers(chosen.built, main.sequential_ns, session, call, search)
            racers |= memory.fitting(untuned)
        raced = run_last_race(racers, session, call)
        curve = () if tuned is None else tuned.curve
        evidence = evidence_of(raced, racers, session, call, curve, search.deadlines_ms)
    steps = TuneSteps(
        call=call,
        options=options,
        ceiling=ceiling,
        chosen=chosen,
        tuned=tuned,
        decided=decided,
        main=main,
        racers=racers,
        raced=raced,
        memory=memory,
    )
    return TuneRace(racers=racers, kept=steps.kept(evidence), certain=steps.is_certain)


def _require_use(inputs: Mapping[str, np.ndarray], given: TuneCall) -> None:
    """Refuse inputs that nothing is checked on, or that are not the model's."""
    if not given.options.precision.is_low:
        raise OptionError(
            "inputs are given, but only errors of bfloat16 are checked on them; give "
            "precision='bfloat16' as well (--precision bfloat16), or leave them out"
        )
    require_inputs(inputs, given.mod, given.params)


def _untuned_racers(
    built: BuiltModel,
    sequential_ns: int,
    session: MeasuringSession,
    call: MeasuringCall,
    search: SearchOptions,
) -> dict[Contestant, Racer]:
    """Best schedules of untuned kernels, which tuned ones have to beat beside sequential order.

    Sequential order of the untuned kernels lost to that of the tuned ones before.
    """
    if not call.budget.allows(2 * race_s(sequential_ns, call.compare)):
        call.budget.cut("schedules of untuned kernels were not found, and so not compared")
        return {}
    racers = racers_of(schedule_build(built, session, call, search), session, call)
    return {UNTUNED[who]: racer for who, racer in racers.items() if who in UNTUNED}


def _installed(
    choice: LibraryChoice, device: MeasuringDevice, options: DeviceOptions, gate: StageGate
) -> tuple[OperatorLibrary, ...]:
    """Operator libraries as they are on the device; a missing one is told before the work."""
    if not choice.of_target or not options.is_remote:
        return choice.installed()
    need = StageNeed.to_profile(1, "ask the device")
    with gate.stage(need) as granted, device.at(granted.address).open() as session:
        return choice.installed(session.require)


def measuring_device(target: Any, options: DeviceOptions, gate: StageGate) -> MeasuringDevice:
    """Device that prices are taken on and models are timed on."""
    resolved = None if target is None else resolve_target(target)
    here = LocalCpu() if resolved is None else local_device(resolved)
    tracker = options.rpc_tracker
    if tracker is not None and resolved is not None and is_gpu_target(resolved):
        raise OptionError(
            f"target is {target!r} and rpc_tracker {tracker!r}, but GPUs are measured on the "
            "machine they are in; run tune there, without rpc_tracker"
        )
    return requested_device(options, here=here, gate=gate)
