"""Work of ``tvm-ios bench --tuning``: untuned and tuned kernels, each in order and scheduled.

All of them, and stock TVM on the untuned kernels, are timed in one interleaved run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.compile.lower import lower_schedule
from tvm_ios.compile.model import CompiledModel
from tvm_ios.driver.races.stock_contestants import race_with_stock
from tvm_ios.measure.comparison import Comparison
from tvm_ios.models import by_name
from tvm_ios.profile.build_candidates import changes_for
from tvm_ios.profile.fastest_build import build_fastest
from tvm_ios.profile.find_schedules import find_schedules
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.measuring_call import MeasuringCall
from tvm_ios.profile.race import choose
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.profile.way_choice import settled_prices
from tvm_ios.report.table import comparison_table
from tvm_ios.report.tune_report import Contestant
from tvm_ios.search.options import SearchOptions
from tvm_ios.support.terminal import StderrProgress
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.support.whole_file import make_output_folder, write_text
from tvm_ios.tuning.tuned_kernels import TunedKernels, TuningRequest, tuned_kernels
from tvm_ios_lab.bench.benchmark import (
    BenchmarkSettings,
    benchmark_record,
)
from tvm_ios_lab.bench.evaluation import stock_build
from tvm_ios_lab.bench.records import BenchmarkRecord

__all__ = [
    "TUNED",
    "UNTUNED",
    "TunedEvaluation",
    "corner",
    "evaluate_tuned",
    "measure_tuned",
    "record_of",
]

UNTUNED, TUNED = "untuned", "tuned"
OWN_KERNELS = (Contestant.SEQUENTIAL, Contestant.GREEDY, Contestant.IOS)
"""Contestants for one set of kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedEvaluation:
    """Results of one network with untuned and with tuned kernels."""

    tuned: TunedKernels
    comparison: Comparison
    phase_s: Mapping[str, float]
    notes: tuple[str, ...]

    def kept(self, kernels: str) -> str:
        """Name of what ``tune`` would keep on untuned or tuned kernels."""
        names = {who: corner(kernels, who) for who in OWN_KERNELS}
        return names[choose(self.comparison, names).kept]

    def as_text(self) -> str:
        """Task table, comparison table, notes."""
        outcome = self.tuned.outcome
        baselines = (corner(UNTUNED, Contestant.SEQUENTIAL), self.kept(UNTUNED))
        return "\n".join(
            [
                *([] if outcome is None else [outcome.as_text()]),
                comparison_table(self.comparison, baselines=baselines).as_text(),
                f"kept: {self.kept(UNTUNED)}, {self.kept(TUNED)}",
                "time: " + ", ".join(f"{name} {s:.1f} s" for name, s in self.phase_s.items()),
                *(f"note: {note}" for note in self.notes),
            ]
        )


def evaluate_tuned(
    mod: tvm.IRModule,
    params: Mapping[str, Any],
    request: TuningRequest,
    call: MeasuringCall,
    *,
    name: str,
) -> TunedEvaluation:
    """Build twice, search twice, and time everything against everything.

    The call's budget is as that of ``tune``, but for the last race, which has all its rounds. A
    third of it is for the first search, and of the rest tuners get their share.
    """
    lanes, clock = call.lanes, call.clock
    chosen = build_fastest(
        mod, params, None, call, changes=changes_for(call.device.traits), name=name
    )
    untuned = chosen.built
    plain = stock_build(chosen, mod, params, None, clock, name=name)
    models: dict[str, CompiledModel] = {}
    notes: list[str] = []

    def schedule(kernels: str, built: BuiltModel, budget: TimeBudget) -> None:
        with clock.phase(f"search {kernels}"):
            with (
                call.device.open() as session,
                StageKernels(built, lanes=lanes, session=session) as runner,
            ):
                prices = settled_prices(MeasuredKernels(runner, database=call.database))
                limits = {Contestant.IOS.value: SearchOptions()}
                found = find_schedules(prices, limits, clock, budget)
            notes.extend((*found.notes, *prices.notes))
            for who, made in found.schedules.items():
                name = corner(kernels, Contestant(who))
                models[name] = lower_schedule(built, made, lanes=lanes)

    schedule(UNTUNED, untuned, call.budget.part(3))
    with ExitStack() as stack:
        tuned = stack.enter_context(
            tuned_kernels(
                untuned,
                chosen.candidate.mod,
                chosen.candidate.params,
                request,
                call,
            )
        )
        schedule(TUNED, tuned.built, call.budget)
        with clock.phase("compare"):
            comparison = race_with_stock(plain.kernels, models, lanes=lanes, options=call.compare)
    return TunedEvaluation(
        tuned=tuned,
        comparison=comparison,
        phase_s=clock.phase_s,
        notes=(
            *dict.fromkeys(
                (*chosen.notes, *tuned.notes, *notes, *comparison.notes, *call.budget.notes)
            ),
        ),
    )


def corner(kernels: str, who: Contestant) -> str:
    """Name of a contestant: kernels untuned or tuned, and the order they run in."""
    return f"{kernels} {'IOS' if who is Contestant.IOS else who.value}"


def measure_tuned(
    networks: Sequence[str],
    settings: BenchmarkSettings,
    request: TuningRequest,
    records: Path,
) -> None:
    """Measure networks one after another into JSON files, their logs into a folder.

    Parameters
    ----------
    request
        Request for tuned kernels; its logs are not used.
    records
        The folder of the logs: ``NETWORK.BACKEND.log``.
    """
    factories = [(name, by_name(name)) for name in networks]
    settings.call()  # what cannot be honoured is refused before any work
    folder = settings.folder or Path()
    make_output_folder(folder)
    batch_size = 1 if settings.batch_size is None else settings.batch_size
    for name, factory in factories:
        mod, params = factory(batch_size=batch_size)
        log = records / f"{name}.{request.backend}.log"
        with StderrProgress() as progress:
            found = evaluate_tuned(
                mod,
                params,
                replace(request, records=(log,)),
                settings.call(progress),
                name=name,
            )
        print(f"\n== {name} ==\n{found.as_text()}", flush=True)
        path = folder / f"{name}_bs{batch_size}.{request.backend}.json"
        write_text(path, record_of(name, found, settings).to_json() + "\n")
        print(f"wrote {path}", flush=True)


def record_of(name: str, found: TunedEvaluation, settings: BenchmarkSettings) -> BenchmarkRecord:
    """The record that is stored of an evaluation."""
    outcome = found.tuned.outcome
    facts: dict[str, object] = {
        "kept untuned": found.kept(UNTUNED),
        "kept tuned": found.kept(TUNED),
        "records applied": found.tuned.layout or "none",
        **{f"{phase} s": f"{seconds:.1f}" for phase, seconds in found.phase_s.items()},
    }
    if outcome is not None:
        facts["tasks"] = len(outcome.tasks)
        facts["candidates measured"] = outcome.trials
        facts["candidates known"] = sum(task.known for task in outcome.tasks)
    return benchmark_record(name, found.tuned.built, found.comparison, facts, found.notes, settings)
