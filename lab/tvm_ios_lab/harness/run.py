"""Runs an experiment: the cells that are not measured yet, then the table and the figure of all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tvm_ios.errors import ArtifactError, HostError, TvmIosError
from tvm_ios.jobs.ledger import CellStep, only_one
from tvm_ios.measure.comparison import Comparison
from tvm_ios.report.table import Table
from tvm_ios.support.json_nouns import noun_record
from tvm_ios.support.whole_file import write_text
from tvm_ios_lab.figures.chart import draw_panels
from tvm_ios_lab.harness.cell_record import (
    CellRecord,
    outcome_of,
    read_record,
    record_path,
)
from tvm_ios_lab.harness.ledger import Status, run_missing, write_noun
from tvm_ios_lab.harness.protocol import (
    Bench,
    Experiment,
    Outcome,
    Settings,
    cell_title,
)
from tvm_ios_lab.measurement import now_text

__all__ = ["ExperimentRun", "forget_cells", "run_experiment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentRun:
    """An experiment that was run."""

    experiment: Experiment[Any, Any]
    command: str
    """Command of this run; records say by what they were made."""
    outcomes: tuple[Outcome[Any, Any], ...]
    records: tuple[CellRecord, ...]
    """Records of all cells, in their order."""
    files: tuple[Path, ...]
    """Files that were written: the table, and the figure if there is one."""
    remarks: tuple[str, ...] = ()
    """Remarks on what could not be made, such as a figure without matplotlib."""

    @property
    def table(self) -> Table:
        """Table of every cell."""
        return self.experiment.table(self.outcomes)

    @property
    def failed(self) -> int:
        """Cells that failed."""
        return sum(outcome.found is None for outcome in self.outcomes)

    def as_text(self) -> str:
        """The table for a terminal, and what belongs to it."""
        table = self.table.as_text()
        return "\n".join((f"== {self.experiment.title} ==", table, "", *self._said()))

    def as_markdown(self) -> str:
        """The table as a page, with its command and where its numbers come from."""
        said = "\n\n".join(self._said())
        return f"# {self.experiment.title}\n\n{self.table.as_markdown()}\n\n{said}\n"

    def as_record(self) -> dict[str, Any]:
        """Plain data for JSON: the table, and all cells with their raw samples."""
        table = self.table
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.title,
            "command": self.command,
            "published": self.experiment.published,
            "notes": [*self.experiment.notes, *self._race_notes(), *self.remarks],
            "table": {"header": list(table.header), "rows": [list(row) for row in table.rows]},
            "cells": [noun_record(CellRecord, record) for record in self.records],
            "files": [str(path) for path in self.files],
        }

    def _said(self) -> tuple[str, ...]:
        published = self.experiment.published
        days = sorted({each.taken_at[:10] for each in self.outcomes})
        when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        machines = " and ".join(sorted({each.machine for each in self.outcomes}))
        # Cells of other calls, with other options, are known and stay.
        commands = " and ".join(
            f"`{each}`" for each in dict.fromkeys(r.command for r in self.records)
        )
        return (
            *([f"Published: {published}"] if published else []),
            *self.experiment.notes,
            *self._race_notes(),
            *self.remarks,
            f"Made by {commands} on {machines}, {when}.",
        )

    def _race_notes(self) -> Iterator[str]:
        """Notes that the races of cells have, such as that the machine was busy."""
        for each in self.outcomes:
            race: Comparison | None = getattr(each.found, "race", None)
            if race is not None and race.notes:
                yield f"{cell_title(each.cell)}: {'; '.join(race.notes)}."


def forget_cells(experiment: Experiment[Any, Any], settings: Settings, folder: Path) -> None:
    """Remove the records of an experiment's cells, so that they are measured again.

    Parameters
    ----------
    folder
        Holds a folder for each experiment.
    """
    with _only_one(folder / experiment.name):
        for cell in experiment.cells(settings):
            path = record_path(folder, experiment, cell)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise ArtifactError(
                    f"cannot remove {path}: {error}; choose another --output"
                ) from error


def _only_one(folder: Path) -> contextlib.AbstractContextManager[None]:
    return only_one(folder, what="an experiment", otherwise="choose another --output")


def run_experiment(
    experiment: Experiment[Any, Any],
    settings: Settings,
    bench: Bench,
    *,
    command: str,
    go_on: str = "",
    retry: bool = False,
    listener: Callable[[CellStep[Any, CellRecord]], None] = lambda _: None,
) -> ExperimentRun:
    """Measure the cells that have no record yet, and write ``table.md`` and ``figure.png``.

    Parameters
    ----------
    bench
        Means to measure with; its folder holds a folder for each experiment.
    command
        Command of a reader who wants the same; stands in records and on the page.
    go_on
        Command that goes on here after an interruption; ``command`` where empty.
    retry
        Whether cells that failed are measured again.
    listener
        Function that is told of each cell.
    """
    place = partial(record_path, bench.folder, experiment)
    folder = bench.folder / experiment.name
    cells = experiment.cells(settings)
    with _only_one(folder):
        records = run_missing(
            cells,
            read=lambda cell: read_record(place(cell)),
            run=partial(_measure, experiment, replace(bench, folder=folder), command),
            write=lambda cell, record: write_noun(place(cell), record),
            again=lambda record: retry and record.status is Status.FAILED,
            listener=listener,
            go_on=go_on or command,
        )
        outcomes = tuple(
            outcome_of(experiment, cell, record, place(cell))
            for cell, record in zip(cells, records, strict=True)
        )
        run = ExperimentRun(
            experiment=experiment, command=command, outcomes=outcomes, records=records, files=()
        )
        return _with_files(run, folder)


def _measure(experiment: Experiment[Any, Any], bench: Bench, command: str, cell: Any) -> CellRecord:
    """Measure a cell; it fails where the experiment refuses it."""
    found, message = None, ""
    taken_at = now_text()
    begin = time.monotonic()
    try:
        found = experiment.measure(cell, bench)
    except TvmIosError as error:
        message = str(error)
    return CellRecord.here(
        command,
        experiment=experiment.name,
        cell=noun_record(type(cell), cell),
        status=Status.FAILED if found is None else Status.DONE,
        message=message,
        seconds=time.monotonic() - begin,
        time_budget_s=bench.time_budget if getattr(cell, "run", None) else None,
        taken_at=taken_at,
        found=None if found is None else noun_record(experiment.found_kind, found),
    )


def _with_files(run: ExperimentRun, folder: Path) -> ExperimentRun:
    files, remarks = [folder / "table.md"], []
    panels = run.experiment.panels(run.outcomes)
    if panels:
        try:
            draw_panels(panels, folder / "figure.png")
            files.append(folder / "figure.png")
        except (ArtifactError, HostError) as error:
            remarks.append(f"There is no figure: {error}")
    if run.failed:
        remarks.append(
            f"{run.failed} of {len(run.outcomes)} cells failed; the table says why, and --retry "
            "measures them again."
        )
    done = replace(run, files=tuple(files), remarks=tuple(remarks))
    write_text(folder / "table.md", done.as_markdown())
    return done
