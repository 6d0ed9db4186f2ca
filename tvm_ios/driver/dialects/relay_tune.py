"""``tune`` of Relay models: forms of a model, tuned kernels, and decisions of other tunings."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.devices.local import LocalCpu
from tvm_ios.devices.protocol import MeasuringDevice, MeasuringSession
from tvm_ios.devices.targets import local_device
from tvm_ios.driver.ceiling import Arithmetic, module_graph, told_ceiling
from tvm_ios.driver.code_ahead import compile_code_ahead
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.driver.taken_rest import taken_rest
from tvm_ios.driver.tune_steps import (
    UNTUNED,
    TuneRace,
    TuneSteps,
    measuring_call,
    racers_of_call,
)
from tvm_ios.errors import OptionError
from tvm_ios.host import default_lanes
from tvm_ios.kernels.workers import shared_workers
from tvm_ios.profile.build_candidates import BuildCandidate, changes_for
from tvm_ios.profile.decisions.fit_decisions import DecisionFitting
from tvm_ios.profile.decisions.known_forms import prepared_in_form
from tvm_ios.profile.fastest_build import build_fastest
from tvm_ios.profile.find_schedules import schedule_build
from tvm_ios.profile.image_form import form_by_prices
from tvm_ios.profile.last_race import (
    Racer,
    compiled_racers,
    evidence_of,
    racers_of,
    run_last_race,
)
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.race import race_s
from tvm_ios.profile.within_memory import MemoryLimit
from tvm_ios.relay.inputs import resolve_target
from tvm_ios.relay.prepare import converted_model, multiplies_bytes
from tvm_ios.report.tune_report import Contestant
from tvm_ios.runtime.artifact.decisions_file import read_given
from tvm_ios.runtime.base.device import is_gpu_target
from tvm_ios.runtime.libraries.protocol import OperatorLibrary
from tvm_ios.search.options import SearchOptions
from tvm_ios.support.exact_bits import exact_bits
from tvm_ios.support.stage_gate import (
    OpenGate,
    StageGate,
    StageNeed,
    gate_around,
)
from tvm_ios.tuning.device_options import DeviceOptions
from tvm_ios.tuning.records.record_lookup import records_around
from tvm_ios.tuning.remote import requested_device
from tvm_ios.tuning.tuned_kernels import TuningRequest, tuned_kernels

__all__ = ["measuring_device", "tune_race"]


@shared_workers()
def tune_race(given: TuneCall) -> TuneRace:
    """Contestants of a :func:`tune`'s last race and the winner, compiled.

    Errors are those of :func:`tune`.
    """
    with exact_bits(given.options.build.exact):
        return _tune_race(given)


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
    call = measuring_call(given, options, device, gate, rest)
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
            model, pads = BuildCandidate(mod=mod, params=params), build.pad_channels
            prepared_in = prepared_in_form(model, built.prepared.target, pad_channels=pads)
            fitting = DecisionFitting(
                built=built,
                call=call,
                prepared_in=None if conversion.changes else prepared_in,
                pad_merged_kernels=search.pad_merged_kernels,
                precision=options.precision,
                inputs=given.inputs,
            )
            decided = fitting.of(files)
            main = schedule_build(built, session, call, search)
            # Parts are timed alone on this machine only.
            local_parts = () if options.device.is_remote else call.answers.parts
            racers = racers_of_call(main, decided, local_parts, memory, session, call)
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
        precision=chosen.precision,
        form_notes=chosen.notes,
        tuned=tuned,
        decided=decided,
        main=main,
        racers=racers,
        raced=raced,
        memory=memory,
        records_around=records_around,
    )
    return steps.race(evidence)


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
