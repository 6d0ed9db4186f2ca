"""Five schedules of four networks at batch one: measured on this CPU, by the model for GPUs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from tvm_ios.report.table import Table
from tvm_ios_lab.cells.schedules import NAMES, TUNE, FoundSchedules
from tvm_ios_lab.figures.chart import Bars, Panel, Series
from tvm_ios_lab.harness.agreement import ALIKE, Agreement, error_of, mean_error
from tvm_ios_lab.harness.checkout import PAPER_NETWORKS, distinct_parts
from tvm_ios_lab.harness.cpu_run import CpuRun, cpu_run
from tvm_ios_lab.harness.error_column import error_text
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings, table_of
from tvm_ios_lab.harness.published_system import SYSTEMS

__all__ = ["PUBLISHED_COST_S", "PUBLISHED_MS", "Schedules", "SchedulesCell"]

CPU = "CPU"
PUBLISHED_MS = {
    "Inception V3": (6.51, 4.62, 5.39, 4.11, 4.03),
    "RandWire": (8.49, 6.27, 8.54, 6.02, 6.02),
    "NasNet-A": (22.95, 16.78, 22.94, 16.04, 16.04),
    "SqueezeNet": (0.86, 0.98, 0.74, 0.82, 0.73),
}
"""Milliseconds on the V100, by schedule of :data:`NAMES`."""
PUBLISHED_COST_S = {
    "Inception V3": (0, 0, 1, 48, 48),
    "RandWire": (0, 0, 3, 4386, 4407),
    "NasNet-A": (0, 0, 63, 3591, 3653),
    "SqueezeNet": (0, 0, 0, 1, 1),
}
"""Seconds of the search on the V100."""
MORE_ROUNDS = 30
"""Rounds of races of small networks, which take no time and differ by little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulesCell:
    """Network on one device."""

    network: str
    device: str
    """:data:`CPU`, or a key of ``SYSTEMS``."""
    run: CpuRun | None
    """Settings of the measurement; None where it is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedules:
    """The paper's comparison of schedules."""

    name: str = "schedules"
    title: str = "Five schedules of four networks, batch 1"
    published: str = (
        "README of the published code, section 4.2.1: V100 SXM2 at 1530 MHz, cuDNN 7.6.5, "
        "float32; the figure of the paper normalises the same numbers."
    )
    notes: tuple[str, ...] = (
        "CPU rows are measured (with --quick: Inception V3 with images of 139 pixels, SqueezeNet "
        "of 64, RandWire of 32 nodes, NASNet-A of four cells), all schedules of a network in one "
        "interleaved race on the same kernels; *over sequential* is the median of the rounds' "
        "ratios. Where a search promises less than 1 % it answers with sequential order (as many "
        "stages), and what its row says beyond 1.00 is noise. *tune* is what `tune` keeps: the "
        "fastest of greedy, IOS-both and its list, if it beats sequential order beyond the noise.",
        "GPU rows are computed by the analytical model, nothing was measured: V100 and K80 with "
        "the published runtime (cuDNN 7, streams, device-wide waits, no CUDA graph), H100 with a "
        "CUDA graph and tuned kernels. RandWire and NasNet-A on the published runtime take up to "
        "a minute to search.",
        "*error* is the model's speedup over the published one, less 1; no number is fitted to a "
        "network. Data-sheet numbers are used as they are; four constants of the model were "
        "chosen with the published V100 results in view (docs/gpu-model.md names them). What is "
        "left comes from what the model does not know: kernels that run at the same time do not "
        "disturb each other's caches in it, so concurrent stages are too fast, and nobody knows "
        "which algorithm cuDNN 7 took. The K80's clock and issue rate were "
        "chosen likewise, with its two published latencies of Inception V3.",
        f"*order* counts the pairs of schedules whose published latencies differ by more than "
        f"{1 - ALIKE:.0%} and that the model orders likewise.",
    )
    found_kind: type[FoundSchedules] = FoundSchedules

    def cells(self, settings: Settings) -> tuple[SchedulesCell, ...]:
        """Every network on this CPU, then on every GPU."""
        run = cpu_run(settings, rounds=MORE_ROUNDS if settings.quick else None)
        return (
            *(SchedulesCell(network=name, device=CPU, run=run) for name in PAPER_NETWORKS),
            *(
                SchedulesCell(network=name, device=device, run=None)
                for device in SYSTEMS
                for name in PAPER_NETWORKS
            ),
        )

    def measure(self, cell: SchedulesCell, bench: Bench) -> FoundSchedules:
        """Search all schedules and race them, or add up their prices."""
        if cell.run is None:
            return _modelled(cell)
        from tvm_ios_lab.measured.schedules import measured  # noqa: PLC0415 - loads TVM

        return measured(cell.network, cell.run, bench)

    def table(self, outcomes: Sequence[Outcome[SchedulesCell, FoundSchedules]]) -> Table:
        """A row for each schedule of each network on each device, and means by device."""
        header = (
            "network, device",
            "schedule",
            "stages",
            "ms",
            "over sequential",
            "published ms (V100)",
            "published over sequential (V100)",
            "error",
            "search s",
            "published search s (V100)",
        )
        return table_of(header, outcomes, _rows, _means(outcomes))

    def panels(
        self, outcomes: Sequence[Outcome[SchedulesCell, FoundSchedules]]
    ) -> tuple[Panel, ...]:
        """Throughput by network and device, the best of the five being 1, as the paper has it."""
        return tuple(
            panel
            for device in (CPU, *SYSTEMS)
            if (panel := _panel(device, [e for e in outcomes if e.cell.device == device]))
        )


def published_speedup(network: str, name: str) -> float:
    """Speedup of a schedule over sequential order on the V100."""
    latencies = dict(zip(NAMES, PUBLISHED_MS[network], strict=True))
    return latencies[NAMES[0]] / latencies[name]


def agreement(network: str, ms: Mapping[str, float]) -> Agreement:
    """The model's schedules of a network held against the published ones."""
    told = dict(zip(NAMES, PUBLISHED_MS[network], strict=True))
    return Agreement(subject=network, observed_ms=told, model_ms=ms)


def _modelled(cell: SchedulesCell) -> FoundSchedules:
    system = SYSTEMS[cell.device]
    total_ns, seconds, stages = (dict.fromkeys(NAMES, 0.0) for _ in range(3))
    for part, count in distinct_parts(cell.network).values():
        model = system.model(part)
        for name in NAMES:
            begin = time.monotonic()
            schedule = system.schedule(part, model, name)
            seconds[name] += time.monotonic() - begin
            stages[name] += count * len(schedule.stages)
            total_ns[name] += count * system.run_ns(part, model, schedule)
    return FoundSchedules(
        ms={name: ns / 1e6 for name, ns in total_ns.items()},
        search_s=seconds,
        stages={name: int(number) for name, number in stages.items()},
        priced_by=f"{system.gpu.title}, {system.description}",
        kept="",
        race=None,
    )


def _rows(cell: SchedulesCell, found: FoundSchedules) -> list[tuple[str, ...]]:
    where = f"{cell.network}, {cell.device}, {cell.run.size if cell.run else 'model'}"
    rows: list[tuple[str, ...]] = []
    for name in found.ms:
        told = published_speedup(cell.network, name) if name in NAMES else None
        place = NAMES.index(name) if name in NAMES else None
        ours = found.speedup(name)
        is_v100 = cell.device == "V100" and told is not None
        rows.append(
            (
                where,
                name if name in NAMES else f"{name}: {found.kept}",
                str(found.stages.get(name, "-")),
                f"{found.ms[name]:.3f}",
                f"{ours:.3f}",
                "-" if place is None else f"{PUBLISHED_MS[cell.network][place]:.2f}",
                "-" if told is None else f"{told:.2f}",
                error_text(error_of(ours, told) if is_v100 and told else None),
                f"{found.search_s[name]:.1f}" if name in found.search_s else "-",
                "-" if place is None else str(PUBLISHED_COST_S[cell.network][place]),
            )
        )
    return rows


def _means(
    outcomes: Sequence[Outcome[SchedulesCell, FoundSchedules]],
) -> list[tuple[str, ...]]:
    """Geometric means by device, and of the model's errors; how many orders are right."""
    rows: list[tuple[str, ...]] = []
    for device in (CPU, *SYSTEMS):
        here = [e for e in outcomes if e.cell.device == device and e.found is not None]
        if not here:
            continue
        for name in (*NAMES, *([TUNE] if device == CPU else [])):
            ours = geometric_mean(each.found.speedup(name) for each in here if each.found)
            told = None
            if name in NAMES:
                told = geometric_mean(published_speedup(each.cell.network, name) for each in here)
            error = "-"
            if device == "V100":
                off = mean_error(
                    agreement(each.cell.network, each.found.ms).errors[name]
                    for each in here
                    if each.found and name != NAMES[0]
                )
                error = f"{off:.0%}"
            rows.append(
                (
                    f"geometric mean of {len(here)}, {device}",
                    name,
                    "-",
                    "-",
                    f"{ours:.3f}",
                    "-",
                    "-" if told is None else f"{told:.2f}",
                    error,
                    "-",
                    "-",
                )
            )
        if device == "V100":
            right = [agreement(e.cell.network, e.found.ms).order() for e in here if e.found]
            pairs = f"{sum(r for r, _ in right)} of {sum(n for _, n in right)} pairs"
            rows.append((f"order, {device}", "all five", *("-",) * 5, pairs, "-", "-"))
    return rows


def _panel(device: str, outcomes: Sequence[Outcome[SchedulesCell, FoundSchedules]]) -> Bars | None:
    here = [each for each in outcomes if each.found is not None]
    if not here:
        return None
    names = (*NAMES, *([TUNE] if device == CPU else []))

    def throughputs(name: str) -> list[float]:
        return [
            min(each.found.ms[n] for n in NAMES) / each.found.ms[name]
            for each in here
            if each.found
        ]

    series = [
        Series(name=name, values=(*throughputs(name), geometric_mean(throughputs(name))))
        for name in names
    ]
    if device == "V100":
        told = {n: dict(zip(NAMES, PUBLISHED_MS[n], strict=True)) for n in PUBLISHED_MS}
        for name in NAMES:
            values = [
                min(told[each.cell.network].values()) / told[each.cell.network][name]
                for each in here
            ]
            series.append(
                Series(name=name, values=(*values, geometric_mean(values)), published=True)
            )
    run = here[0].cell.run
    source = f"measured, {run}" if run else f"by the model, {SYSTEMS[device].description}"
    return Bars(
        title=f"{device}: {source}",
        y_label="throughput, best of five is 1",
        groups=(*(each.cell.network for each in here), "mean"),
        series=tuple(series),
    )
