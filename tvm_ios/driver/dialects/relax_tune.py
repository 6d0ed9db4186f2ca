"""``tune`` of Relax models, on CPUs: TVM's kernels as they are, in the fastest layout."""

from __future__ import annotations

import sys
from typing import Any

from tvm_ios.cost.call_database import database_for_call
from tvm_ios.cost.database import open_database
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.devices.local import LocalCpu
from tvm_ios.driver.ceiling import Arithmetic, told_ceiling
from tvm_ios.driver.code_ahead import compile_code_ahead
from tvm_ios.driver.dialects.relax_layout import ModelLayouts
from tvm_ios.driver.dialects.relax_options import relax_options
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.driver.options import TuneOptions
from tvm_ios.driver.tune_steps import TuneRace, TuneSteps
from tvm_ios.host import default_lanes
from tvm_ios.profile.decisions.given_decisions import GivenDecisions
from tvm_ios.profile.find_schedules import schedule_build
from tvm_ios.profile.in_time.early_answers import EarlyAnswers
from tvm_ios.profile.last_race import evidence_of, fitting_racers, racers_of, run_last_race
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.precision.low_build import in_low_precision
from tvm_ios.profile.within_memory import MemoryLimit
from tvm_ios.relax.target import resolve_target
from tvm_ios.support.exact_bits import exact_bits
from tvm_ios.support.progress import PhaseClock
from tvm_ios.support.stage_gate import OpenGate, gate_around

__all__ = ["records_around", "tune_race"]


def tune_race(given: TuneCall) -> TuneRace:
    """Contestants of a :func:`tune`'s last race and the winner, compiled.

    Errors are those of :func:`tune`.
    """
    options = relax_options(
        given.options,
        given.tuning,
        tuning_records=given.tuning_records,
        decisions=given.decisions,
        deadlines_ms=dict(given.options.search.deadlines_ms or {}),
    )
    with exact_bits(options.build.exact):
        return _tune_race(given, options)


def _tune_race(given: TuneCall, options: TuneOptions) -> TuneRace:
    budget, device = given.time_budget, LocalCpu()
    target, build = resolve_target(given.target), options.build
    search = options.search.without_merges() if build.exact else options.search
    choice = LibraryChoice(
        target=target, names=build.named_libraries, tf32=build.tf32, dtype=options.precision.dtype
    )
    compile_code_ahead("llvm")
    call = MeasuringCall(
        lanes=device.require_lanes(given.lanes),
        device=device,
        database=database_for_call(open_database(given.database), fresh=options.database.fresh),
        clock=PhaseClock(given.progress, spent_s=budget.spent_s),
        gate=gate_around(OpenGate(most_cores=default_lanes())),
        budget=budget,
        compare=options.compare,
        measure=options.measure,
        answers=EarlyAnswers(told=given.progress is not None, needed=budget.is_limited),
    )
    layouts = ModelLayouts(
        mod=given.mod, params=given.params, target=target, libraries=choice.installed()
    )
    with call.stage("build", call.to_prepare()):
        graph = layouts.first.extraction.graph
        low = Arithmetic(in_bfloat16=options.precision.is_low)
        ceiling = told_ceiling(lambda: graph, call.lanes, device.traits, device.speeds, low)
    laid_out = layouts.fastest(call, race_forms=build.race_forms)
    built, outcome, notes = laid_out.built, None, laid_out.notes
    if options.precision.is_low:
        found = in_low_precision(built, options.precision, call, layouts.built, given.inputs)
        built, outcome, notes = found.built, found.outcome, (*notes, *found.notes)
    with call.open() as session:
        memory = MemoryLimit.over(built, options.search.memory_limit_mb, session, call)
        main = schedule_build(built, session, call, search)
        racers = memory.fitting(racers_of(main, session, call))
        racers = fitting_racers(racers, main.sequential_ns, call)
        raced = run_last_race(racers, session, call)
        evidence = evidence_of(raced, racers, session, call, ())
    steps = TuneSteps(
        dialect=sys.modules[__name__],
        call=call,
        options=options,
        ceiling=ceiling,
        precision=outcome,
        form_notes=notes,
        tuned=None,
        decided=GivenDecisions(schedules={}),
        main=main,
        racers=racers,
        raced=raced,
        memory=memory,
    )
    return TuneRace(racers=racers, kept=steps.kept(evidence), certain=steps.is_certain)


def records_around(staged: Any) -> None:
    """Tuning records in force, of which there are none."""
    del staged
