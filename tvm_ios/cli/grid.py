"""``tvm-ios grid``: runs a grid of tunings that may be interrupted, and makes a table of it."""

from __future__ import annotations

import argparse
import logging
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.errors import ArtifactError
from tvm_ios.jobs.grid.cell_result import CellResult, read_result
from tvm_ios.jobs.grid.grid_file import Cell, GridFile
from tvm_ios.jobs.grid.grid_table import grid_csv
from tvm_ios.jobs.grid.run_grid import run_grid
from tvm_ios.jobs.ledger import CellStatus, CellStep
from tvm_ios.support.whole_file import write_text

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]

_LOG = logging.getLogger(__name__)


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb and its actions."""
    parser = subparsers.add_parser(
        "grid",
        description="Tune with every combination of the values that a grid file lists, each in a "
        "process of its own, and make one table of it.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    going = actions.add_parser(
        "run",
        help="run the cells that have no result yet",
        description="Run the cells that have no result yet. Interrupted, the same command goes "
        "on. Exit status 1 if a cell failed.",
    )
    going.add_argument("--retry", action="store_true", help="run cells that failed again")
    table = actions.add_parser(
        "table",
        help="print the results as CSV",
        description="Print the results that are there as CSV, or write them into a file.",
    )
    table.add_argument("-o", "--output", type=Path, metavar="FILE", help="a CSV file")
    for action, do in ((going, _run), (table, _table)):
        action.add_argument("grid", type=Path, metavar="GRID", help="a file such as grid.toml")
        action.set_defaults(action=do)


def run(arguments: argparse.Namespace) -> int:
    """Run the chosen action; return its exit status."""
    status: int = arguments.action(arguments)
    return status


def _run(arguments: argparse.Namespace) -> int:
    grid = GridFile.load(arguments.grid)
    results = run_grid(grid, retry=arguments.retry, listener=_tell)
    failed = sum(result.status is CellStatus.FAILED for result in results)
    print(
        f"{len(results)} cells are over, {failed} of them failed; their table: "
        f"tvm-ios grid table {shlex.quote(str(arguments.grid))}"
    )
    return 1 if failed else 0


def _table(arguments: argparse.Namespace) -> int:
    grid = GridFile.load(arguments.grid)
    cells = grid.cells()
    found = [result for cell in cells if (result := read_result(grid.results, cell)) is not None]
    if not found:
        raise ArtifactError(
            f"there are no results in {grid.results}; run: tvm-ios grid run "
            f"{shlex.quote(str(arguments.grid))}"
        )
    text = grid_csv(found)
    if arguments.output is None:
        print(text, end="")
    else:
        write_text(arguments.output, text)
        print(f"wrote {arguments.output}")
    if len(found) < len(cells):
        _LOG.warning("note: %d cells have no result", len(cells) - len(found))
    return 0


def _tell(step: CellStep[Cell, CellResult]) -> None:
    """Print a line when a cell begins, and one when it is over."""
    if step.result is None:
        print(f"[{step.number}/{step.cells}] {step.cell.as_text()} ...", flush=True)
    else:
        known = "" if step.is_new else " (known)"
        print(f"[{step.number}/{step.cells}] {_end(step.result, step)}{known}", flush=True)


def _end(result: CellResult, step: CellStep[Cell, CellResult]) -> str:
    said = f"{step.cell.as_text()}: {result.seconds:.1f} s"
    if result.status is CellStatus.FAILED:
        return f"{said}, failed: {result.message}"
    latency = None if result.report is None else result.report.latency
    return said if latency is None else f"{said}, {latency.as_text()}"
