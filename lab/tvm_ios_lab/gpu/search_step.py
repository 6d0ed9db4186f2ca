"""The search: stages priced on the GPU, every schedule that is compared, and pictures of them."""

from __future__ import annotations

from typing import Any

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage, Strategy
from tvm_ios.cost.database import open_database
from tvm_ios.cost.measured import MeasureOptions
from tvm_ios.devices.targets import local_device
from tvm_ios.errors import HostError
from tvm_ios.profile.measured_kernels import MeasuredKernels
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.profile.way_choice import settled_prices
from tvm_ios.report import draw_schedule
from tvm_ios.runtime.libraries.stage_libraries import PreparedStage
from tvm_ios.search.result import SearchResult
from tvm_ios.support.progress import PhaseClock
from tvm_ios.support.time_budget import TimeBudget
from tvm_ios.support.whole_file import write_bytes
from tvm_ios_lab.bench.evaluation import IOS, search_all
from tvm_ios_lab.gpu.agenda import Step
from tvm_ios_lab.gpu.device_code import kept_device_code
from tvm_ios_lab.gpu.workplace import Workplace

__all__ = ["search"]

_LONGEST_S = 240.0
"""Most seconds for pricing single operators and three searches."""
_QUICK = MeasureOptions(repeat=2, max_repeat=2, min_repeat_ms=0.02)


class _TimedStageRunner(StageKernels):
    """Adds up what the GPU was busy for."""

    busy_ns = 0

    def prepare(self, graph: OperatorGraph, stage: Stage) -> PreparedStage:
        made = super().prepare(graph, stage)

        def time_ns(number: int) -> int:
            elapsed_ns = made.time_ns(number)
            self.busy_ns += elapsed_ns
            return elapsed_ns

        return PreparedStage(time_ns, made.operators)


def search(place: Workplace, step: Step) -> dict[str, Any]:
    """Find the schedules and keep them."""
    (kernels,) = step.kernels
    streams = place.settings.streams
    clock = PhaseClock()
    database = open_database(place.database)
    with kept_device_code(place.device_code), place.built(step.case, kernels) as built:
        with (
            local_device(built.prepared.target).open() as session,
            _TimedStageRunner(built, lanes=streams, session=session, database=database) as runner,
        ):
            options = _QUICK if place.settings.quick else None
            prices = settled_prices(MeasuredKernels(runner, database=database, options=options))
            # Not what is left of the call: a search that is cut short would be kept for good.
            found, stage_prices_ns = search_all(prices, clock, TimeBudget(_LONGEST_S))
        for who, schedule in found.schedules.items():
            text = schedule.to_json() + "\n"
            write_bytes(place.schedule(step.case, kernels, who), text.encode())
        notes = [
            *found.notes,
            *prices.notes,
            *_drawn(place, step, built, found.schedules[IOS], stage_prices_ns),
        ]
    counters = prices.kernels.counters
    return {
        "contestants": list(found.schedules),
        "operators": len(built.graph),
        "stages": {who: _stages(each) for who, each in found.schedules.items()},
        "searches": {who: _search(each) for who, each in found.searches.items()},
        "stages_measured": counters.priced,
        "stages_known": counters.from_database,
        "pricing_s": counters.seconds,
        "device_s": runner.busy_ns / 1e9,
        "notes": notes,
    }


def _drawn(
    place: Workplace,
    step: Step,
    built: BuiltModel,
    schedule: InterOpSchedule,
    stage_prices_ns: tuple[int, ...],
) -> list[str]:
    """Draw the schedule of IOS-both; a note where that cannot be."""
    path = place.folder / "pictures" / f"{step.case.name}.{step.kernels[0].value}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        draw_schedule(built.graph, schedule, path, stage_latencies_ns=stage_prices_ns)
    except HostError as error:
        return [f"no picture: {error}"]
    return []


def _stages(schedule: InterOpSchedule) -> dict[str, int]:
    stages = schedule.stages
    merged = [s for s in stages if s.strategy is Strategy.MERGE and len(s.groups) > 1]
    return {
        "stages": len(stages),
        "concurrent": sum(len(s.groups) > 1 for s in stages) - len(merged),
        "merged": len(merged),
        "widest": max(len(s.groups) for s in stages),
    }


def _search(found: SearchResult) -> dict[str, float]:
    return {
        "seconds": found.seconds,
        "stages_possible": found.distinct_stages,
        "stages_priced": found.priced,
        "predicted_ns": found.latency_ns,
        "predicted_sequential_ns": found.sequential_ns,
    }
