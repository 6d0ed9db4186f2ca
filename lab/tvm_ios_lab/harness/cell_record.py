"""Records of cells: a versioned JSON file each, written when the cell is over."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvm_ios.errors import ArtifactError
from tvm_ios.support.json_nouns import noun_from, noun_record
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError
from tvm_ios_lab.harness.ledger import Status, read_noun
from tvm_ios_lab.harness.protocol import Experiment, Outcome, cell_title
from tvm_ios_lab.measurement import Measurement

__all__ = [
    "CellRecord",
    "outcome_of",
    "read_record",
    "record_path",
]

RECORD_VERSION = 1
_REMEDY = "delete that file, and the cell is measured again"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRecord(Measurement):
    """Cell that is over: everything a number of a table has to name, with the raw samples."""

    version: int = RECORD_VERSION
    experiment: str
    cell: Mapping[str, Any]
    """Fields of the cell."""
    status: Status
    message: str
    """Reason why the cell failed; empty where it did not."""
    seconds: float
    """Seconds that the cell took."""
    time_budget_s: float | None
    """Seconds for building and searching its network; None where nothing was measured, and of old
    cells."""
    found: Any
    """Fields of what was found; None where the cell failed."""


def record_path(folder: Path, experiment: Experiment[Any, Any], cell: Any) -> Path:
    """Path of a cell's record: the cell's values, and a digest that no two cells share."""
    said = json.dumps(noun_record(type(cell), cell), sort_keys=True)
    digest = hashlib.sha256(said.encode()).hexdigest()[:8]
    words = re.sub(r"[^a-z0-9.]+", "-", cell_title(cell).lower()).strip("-")[:80]
    return folder / experiment.name / "cells" / f"{words}-{digest}.json"


def read_record(path: Path) -> CellRecord | None:
    """A stored record; None where there is none."""
    return read_noun(CellRecord, path, remedy=_REMEDY, version=RECORD_VERSION)


def outcome_of(
    experiment: Experiment[Any, Any], cell: Any, record: CellRecord, path: Path
) -> Outcome[Any, Any]:
    """A cell with what was found in it, as the experiment reads it.

    Parameters
    ----------
    path
        Path of the record, for messages.
    """
    found = None
    if record.status is Status.DONE:
        stored = StoredValue(record.found, "found")
        try:
            # Not whole: cells from before an experiment kept a field have its default.
            found = noun_from(experiment.found_kind, stored)
        except UnreadableValueError as error:
            raise ArtifactError(f"{path}: {error}; {_REMEDY}") from error
    return Outcome(
        cell=cell,
        found=found,
        why=record.message,
        taken_at=record.taken_at,
        machine=record.processor,
    )
