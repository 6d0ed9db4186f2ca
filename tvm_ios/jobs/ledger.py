"""Cells of a measurement; what has a result already is not measured again.

A cell is over when its result is written, so whatever ends the process before that costs only cells
at work.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Generic, TypeVar

from tvm_ios.errors import ArtifactError

__all__ = ["CellStatus", "CellStep", "only_one", "said_how_to_go_on"]

CellT = TypeVar("CellT")
ResultT = TypeVar("ResultT")


class CellStatus(Enum):
    """The way in which a cell ended."""

    DONE = "done"
    FAILED = "failed"
    """The cell refused or crashed, or took too long; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellStep(Generic[CellT, ResultT]):
    """A cell that begins or is over, as a listener is told of it."""

    number: int
    """Place of the cell among all, from 1."""
    cells: int
    cell: CellT
    result: ResultT | None
    """Result of the cell; None while it begins."""
    is_new: bool = True
    """False where an earlier run left the result."""


@contextlib.contextmanager
def said_how_to_go_on(results: Sized, cells: int, go_on: str) -> Iterator[None]:
    """Add a note to Ctrl-C: how many of the cells are over, and the command that goes on."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(f"{len(results)} of {cells} cells are over; to go on, run: {go_on}")
        raise


@contextlib.contextmanager
def only_one(folder: Path, *, what: str, otherwise: str) -> Iterator[None]:
    """Hold a folder of results for this process: two of them would measure each other.

    Messages say ``what`` is run there, and what to do ``otherwise`` if nothing can be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("a")
    except OSError as error:
        raise ArtifactError(f"cannot write to {folder}: {error}; {otherwise}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ArtifactError(
                f"another process runs {what} of {folder}; wait for it, or end it"
            ) from error
        yield
