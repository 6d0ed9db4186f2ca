"""Cells of a grid as jobs: what the worker of a cell does, and the machine that cells share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tvm_ios.host.processor import default_lanes
from tvm_ios.jobs.core.job_state import JobSpec
from tvm_ios.jobs.core.resources import Device, DeviceKind, DeviceWish, Machine
from tvm_ios.jobs.device_tables import kind_for, usual_device
from tvm_ios.jobs.grid.grid_file import Cell, GridFile
from tvm_ios.jobs.order import JobOrder
from tvm_ios.jobs.state_folder import StateFolder
from tvm_ios.jobs.tune_work import TuneWork

__all__ = ["cell_folder", "cell_log", "cell_order", "grid_machine"]

PARAMETER_SUFFIXES = (".params", ".npz")


def cell_folder(jobs: StateFolder, cell: Cell) -> Path:
    """The folder of a cell's job."""
    return jobs.jobs / cell.cell_id


def cell_log(jobs: StateFolder, cell: Cell) -> Path:
    """The tuning log of a cell: its own, also where cells share a cache."""
    return cell_folder(jobs, cell) / "records.log"


def cell_order(grid: GridFile, cell: Cell, jobs: StateFolder, tracker: str | None) -> JobOrder:
    """The job that runs a cell, among jobs in a folder, with the tracker started for the grid."""
    given = cell.parameters
    model = grid.model_path(str(given["model"]))
    batch_size, lanes, sla_ms = (given.get(name) for name in ("batch_size", "lanes", "sla_ms"))
    wish = _wish(cell)
    cache = "" if grid.shared_cache else str((cell_folder(jobs, cell) / "cache").resolve())
    return JobOrder(
        spec=JobSpec(
            name=cell.cell_id,
            model=model,
            kind=wish.kind,
            key=wish.key,
            sla_ms=None if sla_ms is None else float(sla_ms),
        ),
        work=TuneWork(
            config=cell.tables_with(tracker),
            params=_parameters_beside(Path(model)),
            input_shapes=str(given.get("input_shapes", "")),
            batch_size=None if batch_size is None else int(batch_size),
            target=str(given.get("target", "")),
            lanes=None if lanes is None else int(lanes),
            cache=cache,
            records=str(cell_log(jobs, cell).resolve()),
        ),
    )


def grid_machine(grid: GridFile, cells: Sequence[Cell], tracker: str | None) -> Machine:
    """The cores of this machine, and devices: those of the file, and what cells need besides."""
    cores = tuple(sorted(os.sched_getaffinity(0))[-default_lanes() :])
    devices = list(grid.devices)
    for cell in cells:
        wish = _wish(cell)
        if not any(map(wish.takes, devices)):
            devices += _usual(wish, grid, cell, tracker, cores)
    return Machine(cores=cores, devices=tuple(devices))


def _wish(cell: Cell) -> DeviceWish:
    key = str(cell.tables.get("device", {}).get("rpc_key", ""))
    if key:
        return DeviceWish(kind=DeviceKind.RPC, key=key)
    return DeviceWish(kind=kind_for(str(cell.parameters.get("target", ""))))


def _usual(
    wish: DeviceWish, grid: GridFile, cell: Cell, tracker: str | None, cores: Sequence[int]
) -> Sequence[Device]:
    if wish.kind is DeviceKind.CORE:
        return (usual_device(cores),)
    if wish.kind is DeviceKind.GPU:
        return (Device(name="gpu0", kind=DeviceKind.GPU, core=cores[0]),)
    given = cell.tables_with(tracker)["device"]
    return tuple(
        Device(
            name=f"{wish.key}-{number}",
            kind=DeviceKind.RPC,
            address=f"{given['rpc_tracker']}:{wish.key}",
            key=wish.key,
        )
        for number in range(1, (grid.servers if cell.wants_device else 1) + 1)
    )


def _parameters_beside(model: Path) -> str:
    """The parameters of a model file: those of the same name beside it."""
    if not model.is_file():
        return ""
    beside = (model.with_suffix(suffix) for suffix in PARAMETER_SUFFIXES)
    return str(next((path for path in beside if path.is_file()), ""))
