"""Use of a device over time, in sequential order and scheduled by IOS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.report.table import Table
from tvm_ios_lab.cells.utilization import SCHEDULES, Busyness, BusyTime
from tvm_ios_lab.figures.chart import Lines, Panel, Series
from tvm_ios_lab.harness.agreement import error_of
from tvm_ios_lab.harness.checkout import sample_part
from tvm_ios_lab.harness.cpu_run import CpuRun, cpu_run
from tvm_ios_lab.harness.error_column import error_text
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings, table_of
from tvm_ios_lab.harness.published_system import SYSTEMS

__all__ = ["Utilization", "UtilizationCell", "busy_over_time"]

CPU = "CPU"
PUBLISHED_WARPS = {"sequential": 1.7e8, "IOS-both": 2.7e8}
"""Active warps in a millisecond on the V100."""
PUBLISHED_OVER = {"sequential": 1.0, "IOS-both": 1.58}
"""And over sequential order, as printed there."""
PLACES = 80
"""Places on a time axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilizationCell:
    """The sample network on one device."""

    device: str
    run: CpuRun | None
    """Settings of the trace; None where it is simulated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilization:
    """The paper's figure of active warps."""

    name: str = "utilization"
    title: str = "How busy the device is over time, sample network"
    published: str = (
        "README of the published code, section 4.2.3 (figure): active warps of the sample network "
        "on a V100 in a millisecond, 1.7e8 in sequential order and 2.7e8 with IOS, 1.58 times."
    )
    notes: tuple[str, ...] = (
        "CPU: lanes that are busy with an operator, from one traced run of the executor; traces "
        "are no source of latencies. Each operator stays on its lane, as a kernel does on its "
        "stream. Elsewhere idle lanes help with large operators, so that sequential order is "
        "faster than it looks here, and IOS gains less (experiment `sample`). Instructions are "
        "those of timed runs, where the kernel lets them be counted (perf_event_open); waiting "
        "lanes spend few.",
        "GPUs: the share of float32 arithmetic in use, by the analytical model's simulated run; an "
        "operator's multiply-adds are spread evenly over its time. Waits of the published "
        "runtime are part of a run's time, and not drawn. The share stands for active warps, "
        "which the model does not count, so compare the ratio of IOS to sequential order. The "
        "model counts only useful multiply-adds, so its ratio is that of the latencies; *error* is "
        "that ratio over the published one, less 1.",
    )
    found_kind: type[Busyness] = Busyness

    def cells(self, settings: Settings) -> tuple[UtilizationCell, ...]:
        """The CPU, then every GPU."""
        return (
            UtilizationCell(device=CPU, run=cpu_run(settings, has_sizes=False)),
            *(UtilizationCell(device=device, run=None) for device in SYSTEMS),
        )

    def measure(self, cell: UtilizationCell, bench: Bench) -> Busyness:
        """Trace or simulate a run of each schedule."""
        if cell.run is None:
            return _modelled(cell)
        from tvm_ios_lab.measured.traces import traced  # noqa: PLC0415 - loads TVM

        return traced(cell.run, bench)

    def table(self, outcomes: Sequence[Outcome[UtilizationCell, Busyness]]) -> Table:
        """A row for each schedule on each device."""
        header = (
            "device",
            "schedule",
            "run us",
            "busy on average",
            "of what",
            "over sequential",
            "instructions/us",
            "published warps/ms (V100)",
            "published over sequential (V100)",
            "error",
        )
        said = dict.fromkeys(e.found.uncounted for e in outcomes if e.found and e.found.uncounted)
        place = header.index("instructions/us")
        closing = [
            ("no instructions", *["-"] * (place - 1), why, *["-"] * (len(header) - place - 1))
            for why in said
        ]
        return table_of(header, outcomes, _rows, closing)

    def panels(self, outcomes: Sequence[Outcome[UtilizationCell, Busyness]]) -> tuple[Panel, ...]:
        """Curves of what is busy over time, for the CPU and the V100, as the paper has it."""
        panels = []
        for each in outcomes:
            if each.found is None or each.cell.device not in (CPU, "V100"):
                continue
            longest = max(run.run_us for run in each.found.runs)
            times = tuple(longest * place / PLACES for place in range(PLACES + 1))
            source = "traced" if each.cell.run else "by the model"
            panels.append(
                Lines(
                    title=f"{each.cell.device}, {source}: {each.found.unit}",
                    x_label="us since the run began",
                    y_label=each.found.unit,
                    x=times,
                    marks=False,
                    series=tuple(
                        Series(
                            name=f"{run.schedule}, {run.mean:.2f} on average",
                            values=busy_over_time(run, times),
                        )
                        for run in each.found.runs
                    ),
                )
            )
        return tuple(panels)


def busy_over_time(run: BusyTime, times: Sequence[float]) -> tuple[float | None, ...]:
    """Average of what is busy between each time and the next; None once the run is over."""
    values: list[float | None] = []
    for begin, end in zip(times, (*times[1:], times[-1] + times[1]), strict=True):
        busy = sum(
            max(0.0, min(end, stop) - max(begin, start)) * share for start, stop, share in run.spans
        )
        values.append(busy / (end - begin) if begin < run.run_us else None)
    return tuple(values)


def _modelled(cell: UtilizationCell) -> Busyness:
    system = SYSTEMS[cell.device]
    part = sample_part()
    model = system.model(part)
    flops = {each.name: each.flops for each in part.graph.operators}
    runs = []
    for name in SCHEDULES:
        schedule = system.schedule(part, model, name)
        simulated = model.model.simulate(part.graph, schedule)
        spans = []
        for each in simulated.operators:
            work = sum(flops[member] for member in each.members)
            length_ns = max(1, each.end_ns - each.start_ns)
            share = work / (length_ns * system.gpu.flops_per_ns)
            spans.append((each.start_ns / 1e3, (each.start_ns + length_ns) / 1e3, share))
        run_us = system.run_ns(part, model, schedule) / 1e3
        runs.append(BusyTime(schedule=name, run_us=run_us, spans=tuple(spans)))
    return Busyness(unit="share of arithmetic", runs=tuple(runs))


def _rows(cell: UtilizationCell, found: Busyness) -> list[tuple[str, ...]]:
    where = f"{cell.device}, {'measured' if cell.run else 'model'}"
    first = found.runs[0]
    return [
        (
            where,
            run.schedule,
            f"{run.run_us:.1f}",
            f"{run.mean:.3f}",
            found.unit,
            f"{run.mean / first.mean:.3f}",
            _number_text(run.instructions_per_us),
            f"{PUBLISHED_WARPS[run.schedule]:.1e}",
            f"{PUBLISHED_OVER[run.schedule]:.2f}",
            error_text(
                error_of(run.mean / first.mean, PUBLISHED_OVER[run.schedule])
                if cell.device == "V100" and run is not first
                else None
            ),
        )
        for run in found.runs
    ]


def _number_text(number: float | None) -> str:
    return "-" if number is None else f"{number:.0f}"
