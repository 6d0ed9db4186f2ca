"""Schedules found for one batch size and run at another: each is best at its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.report.figure import draw_if_possible
from tvm_ios.report.table import Table
from tvm_ios_lab.cells.batch_specialization import RunAtBatch
from tvm_ios_lab.figures.chart import Panel
from tvm_ios_lab.harness.checkout import distinct_parts, recorded_problem
from tvm_ios_lab.harness.cpu_run import CpuRun, cpu_run
from tvm_ios_lab.harness.found_for import FoundFor, closing_row, matrices
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings, table_of
from tvm_ios_lab.harness.published_system import SYSTEMS

__all__ = ["PUBLISHED_MS", "BatchSpecialization", "BatchSpecializationCell"]

CPU = "CPU"
NETWORK = "Inception V3"
CPU_NETWORK = "RandWire"
BATCHES = (1, 32, 128)
CPU_BATCHES = (1, 8, 32)
LARGEST_CPU_BATCH_AT_FULL_SIZE = 8
"""Run at full size; a race at 32 takes more than half an hour."""
LAST_BLOCK = 11
"""The part of Inception V3 that the paper draws: the last block with several operators."""
PUBLISHED_MS = {
    1: (4.03, 4.50, 4.63),
    32: (29.21, 27.44, 27.93),
    128: (105.98, 103.74, 103.29),
}
"""Milliseconds on the V100, by the batch that runs; schedules for :data:`BATCHES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpecializationCell:
    """Batch size to run, with schedules for all batch sizes."""

    device: str
    batch: int
    run: CpuRun | None
    """Settings of the measurement; None where it is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpecialization:
    """The left half of the paper's table of specialised schedules."""

    name: str = "batch-specialization"
    title: str = "Schedules found for one batch size, run at another"
    published: str = (
        "README of the published code, section 4.2.4 (figure): Inception V3 on a V100 SXM2."
    )
    notes: tuple[str, ...] = (
        "V100 and H100 rows are computed by the analytical model for Inception V3, nothing was "
        "measured. CPU rows are measured: RandWire (with --quick the small one), at batches this "
        "machine can search within minutes; all schedules that run at one batch are raced against "
        "each other. At full size nothing runs at batch 32, where a race takes half an hour; "
        "schedules for it run at the other batches.",
        "The schedules of Inception's last block are drawn beside this table, "
        "DEVICE-batch-BATCH.png. At batch 1 the model puts more side by side than at batch 32, as "
        "the paper's figure shows it.",
    )
    found_kind: type[RunAtBatch] = RunAtBatch

    def cells(self, settings: Settings) -> tuple[BatchSpecializationCell, ...]:
        """The CPU's batches, then those of the GPUs."""
        return (
            *(
                BatchSpecializationCell(device=CPU, batch=batch, run=cpu_run(settings, batch=batch))
                for batch in CPU_BATCHES
                if settings.quick or batch <= LARGEST_CPU_BATCH_AT_FULL_SIZE
            ),
            *(
                BatchSpecializationCell(device=device, batch=batch, run=None)
                for device in ("V100", "H100")
                for batch in BATCHES
            ),
        )

    def measure(self, cell: BatchSpecializationCell, bench: Bench) -> RunAtBatch:
        """Search at every batch, run all schedules at one."""
        if cell.run is None:
            return _modelled(cell, bench)
        from tvm_ios_lab.measured.batches import batches_raced  # noqa: PLC0415 - loads TVM

        return batches_raced(CPU_NETWORK, CPU_BATCHES, cell.run, bench)

    def table(self, outcomes: Sequence[Outcome[BatchSpecializationCell, RunAtBatch]]) -> Table:
        """A row for each pair of batches."""
        header = (
            "device",
            "runs at batch",
            "found for batch",
            "ms",
            "its own schedule is faster by",
            "published ms (V100)",
            "published: faster by (V100)",
            "error",
        )
        runs = [_run(each.cell, each.found) for each in outcomes if each.found is not None]
        return table_of(header, outcomes, _rows, closing_row(runs, width=len(header)))

    def panels(
        self, outcomes: Sequence[Outcome[BatchSpecializationCell, RunAtBatch]]
    ) -> tuple[Panel, ...]:
        """A matrix for each device, rows and columns as in the paper."""
        titles = {
            "V100": f"{NETWORK}, V100 by the model (published in brackets), ms",
            "H100": f"{NETWORK}, H100 by the model, ms",
            CPU: f"{CPU_NETWORK} measured on this CPU, ms",
        }
        runs = {
            title: [_run(e.cell, e.found) for e in outcomes if e.cell.device == device and e.found]
            for device, title in titles.items()
        }
        return matrices(runs, row_label="runs at batch", column_label="schedule found for batch")


def _modelled(cell: BatchSpecializationCell, bench: Bench) -> RunAtBatch:
    system = SYSTEMS[cell.device]
    total_ns = dict.fromkeys(BATCHES, 0)
    last = recorded_problem(NETWORK).parts[LAST_BLOCK].graph.fingerprint()
    picture = ""
    for key, (part, count) in distinct_parts(NETWORK).items():
        model = system.model(part, cell.batch)
        for batch in BATCHES:
            schedule = system.schedule(part, system.model(part, batch), "IOS-both")
            total_ns[batch] += count * system.run_ns(part, model, schedule)
            if key == last and batch == cell.batch:
                picture = draw_if_possible(
                    part.graph,
                    schedule,
                    bench.folder / f"{cell.device}-batch-{batch}.png",
                    model.price(part.graph, schedule.stages),
                )
    return RunAtBatch(
        found_for=BATCHES,
        ms=tuple(ns / 1e6 for ns in total_ns.values()),
        picture=picture,
        race=None,
    )


def _run(cell: BatchSpecializationCell, found: RunAtBatch) -> FoundFor[int]:
    told = zip(BATCHES, PUBLISHED_MS[cell.batch], strict=True) if cell.device == "V100" else ()
    return FoundFor(
        own=cell.batch,
        ms=dict(zip(found.found_for, found.ms, strict=True)),
        told=dict(told),
    )


def _rows(cell: BatchSpecializationCell, found: RunAtBatch) -> list[tuple[str, ...]]:
    where = f"{cell.device}, {cell.run.size if cell.run else 'model'}"
    return [(where, str(cell.batch), *row) for row in _run(cell, found).rows()]
