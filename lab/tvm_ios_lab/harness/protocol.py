"""Protocol of experiments: cells, a way to measure one, a table and a figure of what came out.

An experiment is a frozen noun in a module of ``papers/`` and a line of its registry.
Its cells are frozen dataclasses of plain values, and so is what is found in a cell: both are kept
as JSON, by their fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from tvm_ios.report.table import Table
from tvm_ios.support.progress import ProgressListener
from tvm_ios_lab.figures.chart import Panel

__all__ = ["REMARK", "Bench", "Experiment", "Outcome", "Settings", "cell_title", "table_of"]

CellT = TypeVar("CellT")
FoundT = TypeVar("FoundT")
REMARK = "remark"
"""The last column of tables in which a cell failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings that decide which cells an experiment has."""

    lanes: int
    """Lanes of this CPU that measured cells use."""
    quick: bool = False
    """Small networks and few rounds, where something is measured."""
    tune: bool = False
    """Whether kernels are searched, where a committed log has them otherwise."""
    peers: bool = False
    """Whether there is an interpreter that has other frameworks."""

    @property
    def rounds(self) -> int:
        """Rounds of a race."""
        return 12 if self.quick else 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Means to measure a cell with."""

    folder: Path
    """Folder of pictures and schedules of cells, beside the table."""
    database: Path | None = None
    """The profile database; None for the one in the cache."""
    time_budget: float = 240.0
    """Seconds for building and searching a network; races have all their rounds."""
    progress: ProgressListener | None = None
    peers_python: Path | None = None
    """The interpreter that has other frameworks; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[CellT, FoundT]):
    """A cell that is over."""

    cell: CellT
    found: FoundT | None
    """Result of the cell; None where it failed."""
    why: str = ""
    """Reason why the cell failed."""
    taken_at: str = ""
    """Time at which it was measured or computed: ISO 8601, in UTC."""
    machine: str = ""
    """The processor that did it."""


class Experiment(Protocol[CellT, FoundT]):
    """Experiment of a paper."""

    @property
    def name(self) -> str:
        """Name for ``tvm-ios experiment``."""
        ...

    @property
    def title(self) -> str:
        """Title for people, in one line."""
        ...

    @property
    def published(self) -> str:
        """Source of the published numbers in the table, and what was measured there."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Paragraphs that a reader of the table has to know."""
        ...

    @property
    def found_kind(self) -> type[FoundT]:
        """The class of what is found in a cell."""
        ...

    def cells(self, settings: Settings, /) -> tuple[CellT, ...]:
        """Cells of the experiment, the quick ones first."""
        ...

    def measure(self, cell: CellT, bench: Bench, /) -> FoundT:
        """Measure or compute a cell.

        Raises
        ------
        TvmIosError
            If that is not possible; the table says why.
        """
        ...

    def table(self, outcomes: Sequence[Outcome[CellT, FoundT]], /) -> Table:
        """Every cell, published numbers in columns of their own."""
        ...

    def panels(self, outcomes: Sequence[Outcome[CellT, FoundT]], /) -> tuple[Panel, ...]:
        """The figure, of the cells that did not fail; empty where it has none."""
        ...


def cell_title(cell: Any) -> str:
    """The values of a cell, in words; those that are None are left out."""
    values = (getattr(cell, each.name) for each in fields(cell))
    return ", ".join(str(value) for value in values if value is not None)


def table_of(
    header: Sequence[str],
    outcomes: Sequence[Outcome[CellT, FoundT]],
    rows: Callable[[CellT, FoundT], Sequence[tuple[str, ...]]],
    closing: Sequence[tuple[str, ...]] = (),
) -> Table:
    """A table in which every cell has a row; a cell that failed says why in the last column.

    Parameters
    ----------
    rows
        Rows of a cell, each as long as the header.
    closing
        Rows after those of all cells, such as means.
    """
    failed = [outcome for outcome in outcomes if outcome.found is None]
    found = [
        row
        for outcome in outcomes
        if outcome.found is not None
        for row in rows(outcome.cell, outcome.found)
    ]
    found += closing
    if not failed:
        return Table(header=tuple(header), rows=tuple(found))
    empty = ("-",) * (len(header) - 1)
    return Table(
        header=(*header, REMARK),
        rows=(
            *((*row, "") for row in found),
            *((cell_title(each.cell), *empty, f"failed: {each.why}") for each in failed),
        ),
    )
