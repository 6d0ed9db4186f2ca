"""``tune`` of Relax models, on CPUs: TVM's kernels as they are, in the fastest layout."""

from __future__ import annotations

import sys
from typing import Any

from tvm_ios.cost.call_database import database_for_call
from tvm_ios.cost.database import open_database
from tvm_ios.devices.library_choice import LibraryChoice
from tvm_ios.devices.local import LocalCpu
from tvm_ios.driver.ceiling import told_ceiling
from tvm_ios.driver.code_ahead import compile_code_ahead
from tvm_ios.driver.dialects.relax_layout import ModelLayouts
from tvm_ios.driver.kept.tune_call import TuneCall
from tvm_ios.driver.tune_steps import TuneRace, TuneSteps
from tvm_ios.errors import OptionError
from tvm_ios.host import default_lanes
from tvm_ios.profile.decisions.fit_decisions import DecisionFitting
from tvm_ios.profile.find_schedules import schedule_build
from tvm_ios.profile.in_time.early_answers import EarlyAnswers
from tvm_ios.profile.last_race import evidence_of, fitting_racers, racers_of, run_last_race
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.within_memory import MemoryLimit
from tvm_ios.relax.target import resolve_target
from tvm_ios.runtime.artifact.decisions_file import read_given
from tvm_ios.support.progress import PhaseClock
from tvm_ios.support.stage_gate import OpenGate, gate_around

__all__ = ["bfloat16_products", "records_around", "tune_race"]


def tune_race(given: TuneCall) -> TuneRace:
    """Contestants of a :func:`tune`'s last race and the winner, compiled.

    Errors are those of :func:`tune`.
    """
    _require_relax(given)
    options, budget, device = given.options, given.time_budget, LocalCpu()
    files = read_given(given.decisions)
    target = resolve_target(given.target)
    build = options.build
    choice = LibraryChoice(target=target, names=build.named_libraries, tf32=build.tf32)
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
        ceiling = told_ceiling(lambda: graph, call.lanes, device.traits, device.speeds)
    laid_out = layouts.fastest(call, race_forms=build.race_forms)
    built = laid_out.built
    with call.open() as session:
        memory = MemoryLimit.over(built, options.search.memory_limit_mb, session, call)
        fitting = DecisionFitting(
            built=built,
            call=call,
            pad_merged_kernels=options.search.pad_merged_kernels,
            precision=options.precision,
        )
        decided = fitting.of(files)
        main = schedule_build(built, session, call, options.search)
        racers = racers_of(main, session, call)
        racers |= decided.racers(racers, main, session, call)
        racers = fitting_racers(memory.fitting(racers), main.sequential_ns, call)
        raced = run_last_race(racers, session, call)
        evidence = evidence_of(raced, racers, session, call, ())
    steps = TuneSteps(
        dialect=sys.modules[__name__],
        call=call,
        options=options,
        ceiling=ceiling,
        precision=None,
        form_notes=laid_out.notes,
        tuned=None,
        decided=decided,
        main=main,
        racers=racers,
        raced=raced,
        memory=memory,
    )
    return TuneRace(racers=racers, kept=steps.kept(evidence), certain=steps.is_certain)


def records_around(staged: Any) -> None:
    """Tuning records in force, of which there are none."""
    del staged


def bfloat16_products(extraction: Any) -> tuple[int, ...]:
    """Operators that bfloat16 may make faster, of which there are none."""
    del extraction
    return ()


def _require_relax(given: TuneCall) -> None:
    """Refuse what needs Relay, in one line with what to leave out."""
    options = given.options
    tuner = options.kernels.backend_for(given.tuning)
    wanted = {
        f"tuning={tuner!r}": tuner is not None,
        "tuning_records": bool(given.tuning_records),
        f"rpc_tracker={options.device.rpc_tracker!r}": options.device.is_remote,
        f"precision={options.precision.dtype!r}": options.precision.is_low,
        f"conversion ({options.conversion.as_text()})": bool(options.conversion.changes),
        "deadlines_ms": bool(options.search.deadlines_ms),
        "inputs": given.inputs is not None,
    }
    needs = next((what for what, is_given in wanted.items() if is_given), None)
    if needs is not None:
        raise OptionError(
            f"{needs} needs a TVM with Relay, and this process has one with Relax; leave it out, "
            "or give --dialect relay (in Python: without TVM_IOS_TVM=path)"
        )
