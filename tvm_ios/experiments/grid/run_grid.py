"""Runs the cells of a grid one after another, each in a process of its own, and goes on later.

A cell is over when its result lies in the folder of results. Whatever happens before that, only
this cell is run again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tvm_ios.driver.run_folder import RunReport
from tvm_ios.experiments.grid.cell_process import ERROR, FACTS, LOG, REPORT, CellOrder
from tvm_ios.experiments.grid.cell_result import (
    CellResult,
    JobFacts,
    read_result,
    result_path,
    write_result,
)
from tvm_ios.experiments.grid.grid_file import Cell, GridFile
from tvm_ios.experiments.ledger import CellStatus, CellStep, only_one, run_missing
from tvm_ios.host.machine import machine_facts, source_commit
from tvm_ios.host.processor import default_lanes
from tvm_ios.support.json_nouns import from_json
from tvm_ios.tuning.guard import MARK
from tvm_ios.tuning.records.records import read_records

__all__ = ["run_grid"]

_LOG = logging.getLogger(__name__)

CELL_PROCESS = "tvm_ios.experiments.grid.cell_process"
LAST_CHARACTERS = 4000


def run_grid(
    grid: GridFile, *, retry: bool = False, listener: Callable[[CellStep[Cell, CellResult]], None]
) -> tuple[CellResult, ...]:
    """Run what has no result yet; return all results, in the order of the cells.

    Parameters
    ----------
    retry
        Whether cells that failed are run again.
    listener
        Told of each cell.

    Raises
    ------
    ArtifactError
        If a result cannot be read or written, or another process runs this grid.
    TuningError
        If a tracker or servers that are to be started do not come up.
    KeyboardInterrupt
        On Ctrl-C, with a note on how to go on; the cell at hand has no result then.
    """
    with _only_one(grid.results), contextlib.ExitStack() as stack:
        tracker: list[str] = []

        def run(cell: Cell) -> CellResult:
            if cell.wants_device and not tracker:
                tracker.append(stack.enter_context(_devices(grid)))
            return _run_cell(grid, cell, tracker[0] if tracker else None)

        return run_missing(
            grid.cells(),
            read=partial(read_result, grid.results),
            run=run,
            write=partial(write_result, grid.results),
            again=lambda known: retry and known.status is CellStatus.FAILED,
            listener=listener,
            go_on=f"tvm-ios grid run {grid.path}",
        )


def _only_one(folder: Path) -> contextlib.AbstractContextManager[None]:
    return only_one(
        folder, what="the grid", otherwise="copy the grid file to a folder you can write"
    )


def _devices(grid: GridFile) -> contextlib.AbstractContextManager[str]:
    """A tracker with the devices that any cell asks for by key alone."""
    from tvm_ios.experiments.grid.servers import loopback_devices  # noqa: PLC0415 - loads TVM

    keys = {cell.tables["device"]["rpc_key"]: None for cell in grid.cells() if cell.wants_device}
    return loopback_devices(tuple(keys), servers=grid.servers)


def _run_cell(grid: GridFile, cell: Cell, tracker: str | None) -> CellResult:
    """Run a cell to its end, in whatever way it ends."""
    folder = grid.results / "work" / cell.cell_id
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was cut short
    folder.mkdir(parents=True)
    order = _order(grid, cell, folder, tracker)
    (folder / "order.json").write_text(order.to_json(), encoding="utf-8")
    taken_at = datetime.now(UTC).isoformat(timespec="seconds")
    begin = time.monotonic()
    status = _end_of_process(order, folder, grid)
    seconds = time.monotonic() - begin
    records = read_records(folder / LOG).records if (folder / LOG).exists() else ()
    report = job = None
    if status == "" and (folder / REPORT).exists():
        job = from_json(JobFacts, (folder / FACTS).read_text(encoding="utf-8"), FACTS)
        report = RunReport.from_json((folder / REPORT).read_text(encoding="utf-8"))
    facts = dict(machine_facts())
    result = CellResult(
        cell_id=cell.cell_id,
        parameters=cell.parameters,
        repeat=cell.repeat,
        status=CellStatus.FAILED if report is None else CellStatus.DONE,
        seconds=seconds,
        taken_at=taken_at,
        commit=source_commit(),
        machine=f"{facts['processor']}, cores: {facts['cores']}",
        message=status,
        trials=len(records),
        failures=sum(not record.ok for record in records),
        report=report,
        job=job,
    )
    beside = result_path(grid.results, cell)
    _keep(folder / LOG, beside.with_suffix(".log"))
    if report is None:
        _keep(folder / "output.txt", beside.with_suffix(".txt"))
    shutil.rmtree(folder, ignore_errors=True)
    return result


def _order(grid: GridFile, cell: Cell, folder: Path, tracker: str | None) -> CellOrder:
    given = cell.parameters
    tables = cell.tables
    if cell.wants_device:
        tables["device"]["rpc_tracker"] = tracker
    names = ("batch_size", "target", "lanes", "sla_ms")
    batch_size, target, lanes, sla_ms = (given.get(name) for name in names)
    return CellOrder(
        folder=str(folder.resolve()),
        model=grid.model_path(str(given["model"])),
        input_shapes=str(given.get("input_shapes", "")),
        batch_size=None if batch_size is None else int(batch_size),
        target=None if target is None else str(target),
        lanes=None if lanes is None else int(lanes),
        sla_ms=None if sla_ms is None else float(sla_ms),
        tables=tables,
    )


def _end_of_process(order: CellOrder, folder: Path, grid: GridFile) -> str:
    """Run the process of a cell; return why it failed, nothing if it did not."""
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    environment.setdefault("TVM_NUM_THREADS", str(order.lanes or default_lanes()))
    if not grid.shared_cache:
        environment["TVM_IOS_CACHE_DIR"] = str(folder.resolve() / "cache")
    output = folder / "output.txt"
    words = [sys.executable, "-m", CELL_PROCESS, "order.json", str(os.getpid())]
    _LOG.debug("runs %s in %s", shlex.join(words), folder)
    with output.open("wb") as file:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the grid, which ends it
        )
        try:
            status = process.wait(grid.cell_timeout_s)
        except subprocess.TimeoutExpired:
            return f"ended after cell_timeout_s = {grid.cell_timeout_s:g} s"
        finally:
            process.kill()
            process.wait()
    if status == 0:
        return ""
    if (folder / ERROR).exists():
        return (folder / ERROR).read_text(encoding="utf-8").strip()
    said = output.read_text(encoding="utf-8", errors="replace")[-LAST_CHARACTERS:].strip()
    last = said.splitlines()[-1] if said else "it said nothing"
    return f"its process ended with status {status}: {last}"


def _keep(path: Path, place: Path) -> None:
    if path.exists():
        os.replace(path, place)
