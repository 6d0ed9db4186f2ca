"""The sample network of the published README: sequential order against IOS, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.report.figure import draw_if_possible
from tvm_ios.report.table import Table
from tvm_ios_lab.cells.sample import SAMPLED, SampledNetwork, SampledSchedule, stages_text
from tvm_ios_lab.figures.chart import Bars, Panel, Series
from tvm_ios_lab.harness.agreement import error_of
from tvm_ios_lab.harness.checkout import sample_part
from tvm_ios_lab.harness.cpu_run import CpuRun, cpu_run
from tvm_ios_lab.harness.error_column import error_text
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings, table_of
from tvm_ios_lab.harness.published_system import SYSTEMS

__all__ = ["Sample", "SampleCell"]

CPU = "CPU"
PUBLISHED_MS = {"sequential": 0.486, "IOS-parallel": 0.333}
PUBLISHED_STAGES_US = {
    "sequential": (110.7, 126.0, 106.0, 125.5, 17.9),
    "IOS-parallel": (161.5, 154.5, 17.3),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCell:
    """The network on one device."""

    device: str
    run: CpuRun | None
    """Settings of the measurement; None where it is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The first thing that the published README shows."""

    name: str = "sample"
    title: str = "The sample network of the README, stage by stage"
    published: str = (
        "README of the published code, section 3: sequential order and IOS-parallel on a V100 "
        "SXM2 with cuDNN 7; stages are timed there with events in the stream."
    )
    notes: tuple[str, ...] = (
        "CPU rows are measured: schedules in one interleaved race, stages by themselves on the "
        "same lanes, groups of long operators with what they cost more in a network. GPU rows are "
        "computed by the analytical model, nothing was measured. Both schedules of each device are "
        "drawn beside this table, DEVICE-SCHEDULE.png. On two lanes a 3x3 convolution of this size "
        "is split between them anyway, so that little is left for running two side by side; on 80 "
        "multiprocessors it is not.",
        "The model's V100 takes 1.5 to 1.9 times as long as the real one: cuDNN computes such "
        "convolutions by Winograd's algorithm, which multiplies less and which the model does not "
        "have. *error* is its speedup over the published one, less 1.",
    )
    found_kind: type[SampledNetwork] = SampledNetwork

    def cells(self, settings: Settings) -> tuple[SampleCell, ...]:
        """The CPU here, then GPUs by the model."""
        return (
            SampleCell(device=CPU, run=cpu_run(settings, has_sizes=False)),
            *(SampleCell(device=device, run=None) for device in SYSTEMS),
        )

    def measure(self, cell: SampleCell, bench: Bench) -> SampledNetwork:
        """Search, race or add up, and draw both schedules."""
        if cell.run is None:
            return _modelled(cell, bench)
        from tvm_ios_lab.measured.sample import measured  # noqa: PLC0415 - loads TVM

        return measured(cell.run, bench)

    def table(self, outcomes: Sequence[Outcome[SampleCell, SampledNetwork]]) -> Table:
        """A row for each stage of each schedule."""
        header = (
            "device",
            "schedule",
            "ms",
            "over sequential",
            "stage",
            "us",
            "published ms (V100)",
            "published us (V100)",
            "error",
        )
        return table_of(header, outcomes, _rows)

    def panels(self, outcomes: Sequence[Outcome[SampleCell, SampledNetwork]]) -> tuple[Panel, ...]:
        """Bars of speedups over sequential order, by device."""
        here = [each for each in outcomes if each.found is not None]
        if not here:
            return ()
        series = [
            Series(
                name=name,
                values=tuple(
                    each.found.schedules[place].over_sequential for each in here if each.found
                ),
            )
            for place, name in enumerate(SAMPLED)
        ]
        told = [
            Series(
                name=name,
                values=tuple(
                    PUBLISHED_MS["sequential"] / PUBLISHED_MS[name]
                    if name in PUBLISHED_MS and each.cell.device == "V100"
                    else None
                    for each in here
                ),
                published=True,
            )
            for name in SAMPLED
        ]
        groups = tuple(
            f"{each.cell.device},\n{'measured' if each.cell.run else 'model'}" for each in here
        )
        return (
            Bars(
                title="Sample network: times as fast as sequential order",
                y_label="speedup",
                groups=groups,
                series=(*series, *told),
            ),
        )


def _modelled(cell: SampleCell, bench: Bench) -> SampledNetwork:
    system = SYSTEMS[cell.device]
    part = sample_part()
    model = system.model(part)
    found: list[SampledSchedule] = []
    for name in SAMPLED:
        schedule = system.schedule(part, model, name)
        stage_ns = model.price(part.graph, schedule.stages)
        total_ns = system.run_ns(part, model, schedule)
        first_ns = found[0].ms * 1e6 if found else total_ns
        picture = bench.folder / f"{cell.device}-{name}.png"
        found.append(
            SampledSchedule(
                name=name,
                ms=total_ns / 1e6,
                over_sequential=first_ns / total_ns,
                stages=stages_text(part.graph, schedule.stages),
                stage_us=tuple(ns / 1e3 for ns in stage_ns),
                picture=draw_if_possible(part.graph, schedule, picture, stage_ns),
            )
        )
    return SampledNetwork(schedules=tuple(found), race=None)


def _error(cell: SampleCell, schedule: SampledSchedule) -> float | None:
    """Relative error of the model's speedup; None where none is published."""
    first, told_ms = PUBLISHED_MS[SAMPLED[0]], PUBLISHED_MS.get(schedule.name)
    if cell.device != "V100" or told_ms is None or schedule.name == SAMPLED[0]:
        return None
    return error_of(schedule.over_sequential, first / told_ms)


def _rows(cell: SampleCell, found: SampledNetwork) -> list[tuple[str, ...]]:
    where = f"{cell.device}, {'measured' if cell.run else 'model'}"
    rows: list[tuple[str, ...]] = []
    for schedule in found.schedules:
        told_ms = PUBLISHED_MS.get(schedule.name)
        told_us = PUBLISHED_STAGES_US.get(schedule.name, ())
        error = _error(cell, schedule)
        for number, stage in enumerate(schedule.stages):
            first = number == 0
            alike = cell.device == "V100" and len(told_us) == len(schedule.stages)
            rows.append(
                (
                    where,
                    schedule.name,
                    f"{schedule.ms:.3f}" if first else "",
                    f"{schedule.over_sequential:.3f}" if first else "",
                    stage,
                    f"{schedule.stage_us[number]:.1f}",
                    f"{told_ms:.3f}" if first and told_ms else "",
                    f"{told_us[number]:.1f}" if alike else "",
                    error_text(error) if first else "",
                )
            )
    return rows
