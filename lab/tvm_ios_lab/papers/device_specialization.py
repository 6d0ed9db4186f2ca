"""Schedules found for one device and run on another: each is best at home."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.report.table import Table
from tvm_ios_lab.cells.device_specialization import CpuDevice, Transferred
from tvm_ios_lab.figures.chart import Panel
from tvm_ios_lab.harness.checkout import distinct_parts
from tvm_ios_lab.harness.cpu_run import CpuRun, cpu_run
from tvm_ios_lab.harness.found_for import FoundFor, closing_row, matrices
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings, table_of
from tvm_ios_lab.harness.published_system import SYSTEMS

__all__ = ["CPU_DEVICES", "PUBLISHED_MS", "DeviceSpecialization", "SpecializationCell"]

NETWORK = "Inception V3"
CPU_NETWORK = "RandWire"
"""Small enough that all schedules of all devices race in one run, and wide enough to differ."""
PUBLISHED_MS = {
    ("K80", "K80"): 13.87,
    ("K80", "V100"): 14.65,
    ("V100", "K80"): 4.49,
    ("V100", "V100"): 4.03,
}
"""Milliseconds, by the device it runs on and the one that its schedule was found for."""


CPU_DEVICES = tuple(
    CpuDevice(lanes=lanes, onednn=onednn) for onednn in (False, True) for lanes in (1, 2)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecializationCell:
    """Device to run on, with schedules for all devices of its kind."""

    runs_on: str
    run: CpuRun | None
    """Settings of the measurement; None where it is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpecialization:
    """The right half of the paper's table of specialised schedules."""

    name: str = "device-specialization"
    title: str = "Schedules found for one device, run on another"
    published: str = (
        "README of the published code, section 4.2.4 (figure): Inception V3, batch 1, K80 and V100."
    )
    notes: tuple[str, ...] = (
        "V100, K80 and H100 rows are computed by the analytical model for Inception V3, nothing "
        "was measured. CPU rows are measured: RandWire (with --quick the small one of 32 nodes), "
        "where a device is a number of lanes with TVM's kernels or with oneDNN's where those are "
        "faster; all schedules that run on one device are raced against each other.",
        "The model's K80 runs at its base clock and issues one instruction a scheduler and cycle, "
        "which was chosen since it fits these latencies; at its boost clock with all of its 192 "
        "lanes busy it would take half of them. Compare along a row.",
    )
    found_kind: type[Transferred] = Transferred

    def cells(self, settings: Settings) -> tuple[SpecializationCell, ...]:
        """Every CPU device, then every GPU."""
        run = cpu_run(settings)
        return (
            *(SpecializationCell(runs_on=device.name, run=run) for device in CPU_DEVICES),
            *(SpecializationCell(runs_on=device, run=None) for device in SYSTEMS),
        )

    def measure(self, cell: SpecializationCell, bench: Bench) -> Transferred:
        """Search on every device, run all schedules on one."""
        if cell.run is None:
            return _modelled(cell)
        from tvm_ios_lab.measured.devices import transferred  # noqa: PLC0415 - loads TVM

        (here,) = (device for device in CPU_DEVICES if device.name == cell.runs_on)
        return transferred(CPU_NETWORK, here, CPU_DEVICES, cell.run, bench)

    def table(self, outcomes: Sequence[Outcome[SpecializationCell, Transferred]]) -> Table:
        """A row for each pair of devices."""
        header = (
            "runs on",
            "found for",
            "ms",
            "its own schedule is faster by",
            "published ms",
            "published: faster by",
            "error",
        )
        runs = [_run(each.cell, each.found) for each in outcomes if each.found is not None]
        return table_of(header, outcomes, _rows, closing_row(runs, width=len(header)))

    def panels(
        self, outcomes: Sequence[Outcome[SpecializationCell, Transferred]]
    ) -> tuple[Panel, ...]:
        """A matrix of GPUs and one of CPU devices, rows and columns as in the paper."""
        found = {each.cell.runs_on: _run(each.cell, each.found) for each in outcomes if each.found}
        names = {
            "Inception V3 by the model (published in brackets), ms": tuple(SYSTEMS),
            f"{CPU_NETWORK} measured on this CPU, ms": tuple(d.name for d in CPU_DEVICES),
        }
        runs = {title: [found[n] for n in own if n in found] for title, own in names.items()}
        return matrices(runs, row_label="runs on", column_label="schedule found for")


def _modelled(cell: SpecializationCell) -> Transferred:
    here = SYSTEMS[cell.runs_on]
    total_ns = dict.fromkeys(SYSTEMS, 0)
    for part, count in distinct_parts(NETWORK).values():
        model = here.model(part)
        for name, system in SYSTEMS.items():
            schedule = system.schedule(part, system.model(part), "IOS-both")
            total_ns[name] += count * here.run_ns(part, model, schedule)
    return Transferred(
        found_for=tuple(total_ns), ms=tuple(ns / 1e6 for ns in total_ns.values()), race=None
    )


def _run(cell: SpecializationCell, found: Transferred) -> FoundFor[str]:
    return FoundFor(
        own=cell.runs_on,
        ms=dict(zip(found.found_for, found.ms, strict=True)),
        told={name: ms for (here, name), ms in PUBLISHED_MS.items() if here == cell.runs_on},
    )


def _rows(cell: SpecializationCell, found: Transferred) -> list[tuple[str, ...]]:
    where = f"{cell.runs_on}, {cell.run.size if cell.run else 'model'}"
    return [(where, *row) for row in _run(cell, found).rows()]
