"""Runs the cells of a grid as jobs, one after another or beside each other, and goes on later.

A cell is over when its result lies in the folder of results. Whatever happens before that, only
the cells at work are run again.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
import shutil
from collections.abc import Callable
from functools import partial

from tvm_ios.host.machine import machine_facts
from tvm_ios.jobs.daemon.daemon import sole_daemon
from tvm_ios.jobs.daemon.serve import run_daemon
from tvm_ios.jobs.grid.cell_job import cell_order, grid_machine
from tvm_ios.jobs.grid.cell_result import CellResult, read_result
from tvm_ios.jobs.grid.cell_watch import CellWatch
from tvm_ios.jobs.grid.grid_file import Cell, GridFile
from tvm_ios.jobs.jobs_file import JobsFile
from tvm_ios.jobs.ledger import CellStatus, CellStep, only_one, said_how_to_go_on
from tvm_ios.jobs.state_folder import StateFolder

__all__ = ["run_grid"]

_LOG = logging.getLogger(__name__)


def run_grid(
    grid: GridFile, *, retry: bool = False, listener: Callable[[CellStep[Cell, CellResult]], None]
) -> tuple[CellResult, ...]:
    """Run what has no result yet; return all results, in the order of the cells.

    With ``retry``, cells that failed are run again.
    """
    cells = grid.cells()
    results: dict[str, CellResult] = {}

    def tell(cell: Cell, result: CellResult | None, *, is_new: bool = True) -> None:
        if result is not None:
            results[cell.cell_id] = result
        number = cells.index(cell) + 1
        listener(CellStep(number=number, cells=len(cells), cell=cell, result=result, is_new=is_new))

    with _only_one(grid):
        missing = []
        for cell in cells:
            known = read_result(grid.results, cell)
            if known is None or (retry and known.status is CellStatus.FAILED):
                missing.append(cell)
            else:
                tell(cell, known, is_new=False)
        if missing:
            go_on = ["tvm-ios", "grid", "run", *["--retry"] * retry, str(grid.path)]
            with said_how_to_go_on(results, len(cells), shlex.join(go_on)):
                _run(grid, missing, partial(tell, result=None), tell)
    return tuple(results[cell.cell_id] for cell in cells)


def _only_one(grid: GridFile) -> contextlib.AbstractContextManager[None]:
    return only_one(
        grid.results, what="the grid", otherwise="copy the grid file to a folder you can write"
    )


def _run(
    grid: GridFile,
    cells: list[Cell],
    begun: Callable[[Cell], None],
    over: Callable[[Cell, CellResult], None],
) -> None:
    """Run cells as the jobs of a daemon of their own, which begins with nothing."""
    jobs = StateFolder(grid.results / "jobs")
    with sole_daemon(jobs):  # what a grid that was killed has left computing is ended
        _forget(jobs)
    facts = machine_facts()
    with contextlib.ExitStack() as stack:
        tracker = None
        if any(cell.wants_device for cell in cells):
            tracker = stack.enter_context(_devices(grid, cells))
        file = JobsFile(
            scheduler=grid.scheduler,
            machine=grid_machine(grid, cells, tracker),
            orders=tuple(cell_order(grid, cell, jobs, tracker) for cell in cells),
        )
        run_daemon(
            file,
            jobs,
            stays=False,
            tell=_LOG.warning,
            watcher=lambda daemon: CellWatch(
                grid=grid,
                jobs=jobs,
                daemon=daemon,
                cells={cell.cell_id: cell for cell in cells},
                machine=f"{facts['processor']}, cores: {facts['cores']}",
                begun=begun,
                over=over,
            ),
        )
    _forget(jobs)


def _forget(jobs: StateFolder) -> None:
    """Remove what jobs were and what they left: a cell that was interrupted begins anew."""
    shutil.rmtree(jobs.jobs, ignore_errors=True)
    # SQLite keeps its write-ahead log in files beside the database.
    for path in jobs.path.glob(f"{jobs.database.name}*"):
        path.unlink()


def _devices(grid: GridFile, cells: list[Cell]) -> contextlib.AbstractContextManager[str]:
    """A tracker with the devices that any cell asks for by key alone."""
    from tvm_ios.jobs.grid.servers import loopback_devices  # noqa: PLC0415 - loads TVM

    keys = {cell.tables["device"]["rpc_key"]: None for cell in cells if cell.wants_device}
    return loopback_devices(tuple(keys), servers=grid.servers)
