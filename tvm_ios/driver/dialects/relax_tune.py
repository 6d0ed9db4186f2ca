"""``tune`` of Relax models: TVM's kernels as they are, in the fastest layout."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.devices.targets import local_device
from tvm_ios.driver.ceiling import Arithmetic, told_ceiling
from tvm_ios.driver.code_ahead import compile_code_ahead
from tvm_ios.driver.dialects.relax_layout import ModelLayouts
from tvm_ios.driver.dialects.relax_options import relax_options
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.driver.options import TuneOptions
from tvm_ios.driver.taken_rest import taken_rest
from tvm_ios.driver.tune_steps import TuneRace, TuneSteps, measuring_call, racers_of_call
from tvm_ios.host import default_lanes
from tvm_ios.profile.decisions.fit_decisions import DecisionFitting
from tvm_ios.profile.find_schedules import schedule_build
from tvm_ios.profile.last_race import evidence_of, run_last_race
from tvm_ios.profile.precision.low_build import in_low_precision
from tvm_ios.profile.within_memory import MemoryLimit
from tvm_ios.relax.build import StagedBuild
from tvm_ios.relax.extract import kernel_of
from tvm_ios.relax.target import resolve_target
from tvm_ios.relax.tuned_loops import IS_TUNED, database_in_force, read_records
from tvm_ios.report.records_in_force import (
    FolderFormat,
    KernelRecord,
    MissingReason,
    RecordsInForce,
)
from tvm_ios.runtime.artifact.decisions_file import read_given
from tvm_ios.support.exact_bits import exact_bits
from tvm_ios.support.stage_gate import OpenGate, gate_around

__all__ = ["tune_race"]


def tune_race(given: TuneCall) -> TuneRace:
    """Contestants of a :func:`tune`'s last race and the winner, compiled.

    Errors are those of :func:`tune`.
    """
    options, files = relax_options(given.options, given.tuning), read_given(given.decisions)
    records = None
    if given.tuning_records is not None:
        paths = given.tuning_records
        folders = [paths] if isinstance(paths, str | Path) else paths
        records = read_records([Path(each) for each in folders])
    with exact_bits(options.build.exact), nullcontext() if not records else records.database:
        return _tune_race(given, options, files, () if records is None else records.notes)


def _tune_race(
    given: TuneCall, options: TuneOptions, files: Any, notes: tuple[str, ...]
) -> TuneRace:
    target, build = resolve_target(given.target), options.build
    device = local_device(target)
    search = options.search.without_merges() if build.exact else options.search
    choice = LibraryChoice(
        target=target, names=build.named_libraries, tf32=build.tf32, dtype=options.precision.dtype
    )
    compile_code_ahead(str(target.kind.name))
    gate = gate_around(OpenGate(most_cores=default_lanes()))
    call = measuring_call(given, options, device, gate, taken_rest(given.mod, options))
    layouts = ModelLayouts(
        mod=given.mod,
        params=given.params,
        target=target,
        libraries=choice.installed(),
        all_kernels=build.all_kernels,
    )
    with call.stage("build", call.to_prepare()):
        graph = layouts.first.extraction.graph
        low = Arithmetic(in_bfloat16=options.precision.is_low)
        ceiling = told_ceiling(lambda: graph, call.lanes, device.traits, device.speeds, low)
    laid_out = layouts.fastest(call)
    built, outcome, notes = laid_out.built, None, (*laid_out.notes, *notes)
    if options.precision.is_low:
        found = in_low_precision(built, options.precision, call, layouts.built, given.inputs)
        built, outcome, notes = found.built, found.outcome, (*notes, *found.notes)
    with call.open() as session:
        memory = MemoryLimit.over(built, options.search.memory_limit_mb, session, call)
        fitting = DecisionFitting(
            built=built,
            call=call,
            pad_merged_kernels=search.pad_merged_kernels,
            precision=options.precision,
            prepared_in=layouts.in_form,
            inputs=given.inputs,
        )
        decided = fitting.of(files)
        main = schedule_build(built, session, call, search)
        racers = racers_of_call(main, decided, call.answers.parts, memory, session, call)
        raced = run_last_race(racers, session, call)
        evidence = evidence_of(raced, racers, session, call, (), search.deadlines_ms)
    steps = TuneSteps(
        call=call,
        options=options,
        ceiling=ceiling,
        precision=outcome,
        form_notes=notes,
        tuned=None,
        decided=decided,
        main=main,
        racers=racers,
        raced=raced,
        memory=memory,
        records_around=_records_around,
    )
    return steps.race(evidence)


def _records_around(staged: StagedBuild) -> RecordsInForce | None:
    """Kernels with loops of the database of MetaSchedule around the call; None without one."""
    if database_in_force() is None:
        return None
    kernels = []
    graph, extraction = staged.graph, staged.extraction
    rows = zip(extraction.graph.operators, extraction.line.calls, graph.operators, strict=True)
    for operator, call, node in rows:
        function = kernel_of(extraction.module, call)
        if function is None or not operator.flops:
            continue
        shapes = ["x".join(map(str, graph.tensors[each].shape)) for each in node.inputs[:2]]
        tuned = IS_TUNED in function.attrs
        found = FolderFormat.META_SCHEDULE if tuned else MissingReason.NO_RECORD
        kernels.append(
            KernelRecord(operators=(operator.name,), shapes=" * ".join(shapes), found=found)
        )
    contexts = (FolderFormat.META_SCHEDULE,)
    return RecordsInForce(contexts=contexts, logs=(), kernels=tuple(kernels))
