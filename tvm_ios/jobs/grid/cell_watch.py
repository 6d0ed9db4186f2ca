"""Follows the cells of a grid while they run as jobs, and keeps the result of each at its end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tvm_ios.driver.chain.run_folder import RunFolder, RunReport
from tvm_ios.host.machine import source_commit
from tvm_ios.jobs.core.job_state import JobState
from tvm_ios.jobs.core.status import JobStatus
from tvm_ios.jobs.daemon.daemon import Daemon
from tvm_ios.jobs.grid.cell_job import cell_folder, cell_log
from tvm_ios.jobs.grid.cell_result import CellResult, JobFacts, result_path, write_result
from tvm_ios.jobs.grid.grid_file import Cell, GridFile
from tvm_ios.jobs.ledger import CellStatus
from tvm_ios.jobs.local.agent import log_path
from tvm_ios.jobs.state_folder import StateFolder
from tvm_ios.tuning.records.records import read_records

__all__ = ["CellWatch"]


@dataclass(slots=True, kw_only=True)
class CellWatch:
    """Looks at the jobs of cells; each that has ended has its result in the grid's folder soon."""

    grid: GridFile
    jobs: StateFolder
    daemon: Daemon
    cells: Mapping[str, Cell]
    """Cells that run, by the names of their jobs."""
    machine: str
    """The machine's processor and cores; the daemon's own process is kept off some of them."""
    begun: Callable[[Cell], None]
    """Function that is told of each cell that begins."""
    over: Callable[[Cell, CellResult], None]
    """Function that is told of each cell whose result is written."""
    _begun: set[str] = field(default_factory=set)
    _over: set[str] = field(default_factory=set)
    _late: set[str] = field(default_factory=set)

    def show(self) -> None:
        """Say which cells have begun, end those that take too long, and keep new results."""
        longest_s = self.grid.cell_timeout_s or float("inf")
        for job in self.daemon.status():
            cell = self.cells.get(job.name)
            if cell is None or job.name in self._over:
                continue
            if job.state is not JobState.WAITING and job.name not in self._begun:
                self._begun.add(job.name)
                self.begun(cell)
            if job.state.ended:
                self._over.add(job.name)
                self._keep(cell, job)
            elif job.name not in self._late and job.seconds > longest_s:
                self._late.add(job.name)
                self.daemon.cancel(job.name)

    def close(self) -> None:
        """Look for the last time."""
        self.show()

    def _keep(self, cell: Cell, job: JobStatus) -> None:
        folder = cell_folder(self.jobs, cell)
        log = cell_log(self.jobs, cell)
        done = job.state is JobState.DONE
        records = read_records(log).records if log.exists() else ()
        spans = [span for span in self.daemon.spans() if span.job == job.name]
        result = CellResult(
            cell_id=cell.cell_id,
            parameters=cell.parameters,
            repeat=cell.repeat,
            status=CellStatus.DONE if done else CellStatus.FAILED,
            seconds=job.seconds,
            taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
            commit=source_commit(),
            machine=self.machine,
            message="" if done else self._reason(job),
            trials=len(records),
            failures=sum(not record.ok for record in records),
            report=_report(folder) if done else None,
            job=JobFacts.of_spans(spans) if done else None,
        )
        beside = result_path(self.grid.results, cell)
        _move(log, beside.with_suffix(".log"))
        if not done:
            _move(log_path(folder), beside.with_suffix(".txt"))
        # The result comes last: with it a cell is over, and what lies beside it is whole by then.
        write_result(self.grid.results, cell, result)
        shutil.rmtree(folder, ignore_errors=True)
        self.over(cell, result)

    def _reason(self, job: JobStatus) -> str:
        if job.name in self._late:
            return f"ended after cell_timeout_s = {self.grid.cell_timeout_s:g} s"
        return job.reason or "it was cancelled"


def _report(folder: Path) -> RunReport:
    run = RunFolder(path=folder / "run")
    return RunReport.from_json(run.report_path.read_text(encoding="utf-8"))


def _move(path: Path, place: Path) -> None:
    if path.exists():
        os.replace(path, place)
