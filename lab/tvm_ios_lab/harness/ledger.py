"""Records of cells and steps: a file each, and what has one is not measured again.

Experiments run their cells one after another, by :func:`run_missing`; the evaluation of a GPU runs
steps beside each other, within a budget. Status and files are the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from tvm_ios.errors import ArtifactError
from tvm_ios.jobs.ledger import CellStep, said_how_to_go_on
from tvm_ios.support.json_nouns import noun_from, noun_record
from tvm_ios.support.stored_value import UnreadableValueError, parse_json
from tvm_ios.support.whole_file import write_text

__all__ = ["Status", "read_noun", "run_missing", "write_noun"]

CellT = TypeVar("CellT")
ResultT = TypeVar("ResultT")


class Status(StrEnum):
    """Way in which a cell or a step ended."""

    DONE = "done"
    SKIPPED = "skipped"
    """The step cannot be done on this machine; the reason says why."""
    FAILED = "failed"
    CUT = "cut"
    """The budget of the call ended the step; the next call goes on."""


def read_noun(
    kind: type[ResultT], path: Path, *, remedy: str, version: int | None = None
) -> ResultT | None:
    """A frozen dataclass from its file; None where there is no file.

    Parameters
    ----------
    remedy
        Next step of whoever has a damaged file, for messages.
    version
        Value that the field ``version`` must have; None for files without one.
    """
    try:
        stored = parse_json(path.read_text(encoding="utf-8"), "the record")
        if version is not None:
            stored.field("version").whole(version, version)
        return noun_from(kind, stored, whole=True)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, UnreadableValueError) as error:
        raise ArtifactError(f"{path}: {error}; {remedy}") from error


def write_noun(path: Path, noun: Any) -> None:
    """Write a frozen dataclass as JSON; readers find the old file or all of the new one."""
    write_text(path, json.dumps(noun_record(type(noun), noun), indent=1) + "\n")


def run_missing(
    cells: Sequence[CellT],
    *,
    read: Callable[[CellT], ResultT | None],
    run: Callable[[CellT], ResultT],
    write: Callable[[CellT, ResultT], None],
    again: Callable[[ResultT], bool],
    listener: Callable[[CellStep[CellT, ResultT]], None],
    go_on: str,
) -> tuple[ResultT, ...]:
    """Run the cells that have no result; return the results of all, in the order of the cells.

    Parameters
    ----------
    read
        The result that a cell has; None where it has none yet.
    again
        Whether a cell with such a result is run again.
    listener
        Function that is told of each cell.
    go_on
        The command that goes on after an interruption.
    """
    results: list[ResultT] = []
    with said_how_to_go_on(results, len(cells), go_on):
        for number, cell in enumerate(cells, start=1):
            result = read(cell)
            is_new = result is None or again(result)
            if result is None or is_new:
                listener(CellStep(number=number, cells=len(cells), cell=cell, result=None))
                result = run(cell)
                write(cell, result)
            listener(
                CellStep(number=number, cells=len(cells), cell=cell, result=result, is_new=is_new)
            )
            results.append(result)
    return tuple(results)
