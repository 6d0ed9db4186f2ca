"""Logs of tuning records: read whatever is in them, append whole lines, mend torn ones.

A log is TVM's own: one record a line, of AutoTVM or auto_scheduler. Several processes may append to
one, and any of them may be killed; complete lines are never lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.errors import OptionError, RecordError
from tvm_ios.tuning.records.log_file import (
    append_bytes,
    end_line,
    locked,
    make_folder,
    read_on,
    replace_file,
)
from tvm_ios.tuning.records.record_line import RejectedLine, TuningRecord, parse_line

__all__ = [
    "RecordLog",
    "RejectedLine",
    "TuningRecord",
    "append_records",
    "best_records",
    "distinct_records",
    "mend_records",
    "read_records",
    "rejected_path",
    "write_records",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLog:
    """Records and rejected lines of logs, in their order."""

    records: tuple[TuningRecord, ...]
    rejected: tuple[RejectedLine, ...]


def read_records(*paths: str | os.PathLike[str]) -> RecordLog:
    """Records in logs of either format, or of both; lines that begin with ``#`` are comments."""
    pieces = [piece for path in paths for piece in _pieces(Path(path), _content(Path(path)))]
    return RecordLog(
        records=tuple(piece for piece in pieces if isinstance(piece, TuningRecord)),
        rejected=tuple(piece for piece in pieces if isinstance(piece, RejectedLine)),
    )


def distinct_records(records: Iterable[TuningRecord]) -> list[TuningRecord]:
    """Records of one workload, each candidate once, with its better time.

    Merged logs may hold one several times. A candidate that ran once counts as run.
    """
    best: dict[str, TuningRecord] = {}
    for record in records:
        other = best.setdefault(candidate := record.candidate(), record)
        if record.mean_s < other.mean_s:
            best[candidate] = record
    return list(best.values())


def append_records(path: str | os.PathLike[str], lines: Iterable[str]) -> None:
    """Append lines in one write, behind lines that other processes append.

    A missing log is made, with its folders; half a line at its end stays alone. Lines are records
    as TVM encodes them, with or without a newline at the end.
    """
    log = Path(path)
    whole = [line.rstrip("\r\n") for line in lines]
    for line in whole:
        if "\n" in line or "\r" in line:
            raise RecordError(f"a tuning record has a newline inside: {line[:60]!r}; give one line")
    data = _encoded(line for line in whole if line)
    if not data:
        return
    try:
        append_bytes(log, data)
    except OSError as error:
        raise _failure("write", log, error) from error


def mend_records(path: str | os.PathLike[str]) -> int:
    """Move what is no record out of a log, into :func:`rejected_path`; return the number of parts.

    Nobody ever sees half a log: another file takes its place at once, with records and comments
    unchanged. A log that needs no mending may be read-only, or missing.
    """
    log = Path(path)
    try:
        with locked(log, os.O_RDONLY) as descriptor:
            return _mend(log, descriptor)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise _failure("mend", log, error) from error


def write_records(
    path: str | os.PathLike[str], records: Iterable[TuningRecord], *, force: bool = False
) -> None:
    """Make a new log of these records; ``force`` replaces an existing file at once."""
    log = Path(path)
    data = _encoded(record.line for record in records)
    try:
        make_folder(log)
        with locked(log, os.O_RDONLY | os.O_CREAT | (0 if force else os.O_EXCL)) as descriptor:
            # What stands behind the position would be carried over, and here nothing shall be.
            os.lseek(descriptor, 0, os.SEEK_END)
            replace_file(log, descriptor, data)
    except FileExistsError as error:
        raise RecordError(
            f"{log} is there already; name a new file, or replace it with force (--force)"
        ) from error
    except OSError as error:
        raise _failure("write", log, error) from error


def best_records(
    records: Iterable[TuningRecord], *, per_workload: int = 1
) -> tuple[TuningRecord, ...]:
    """Fastest records, ``per_workload`` of each workload on each target, fastest first.

    Failed ones are left out. Equally fast ones stay in order; a candidate that was measured twice
    counts once.
    """
    if per_workload < 1:
        raise OptionError(f"per_workload is {per_workload}; give 1 or more")
    candidates: dict[tuple[str, str], set[str]] = {}
    best = []
    for record in sorted((r for r in records if r.ok), key=lambda record: record.mean_s):
        seen = candidates.setdefault((record.workload, record.target), set())
        if len(seen) < per_workload and (candidate := record.candidate()) not in seen:
            seen.add(candidate)
            best.append(record)
    return tuple(best)


def rejected_path(path: str | os.PathLike[str]) -> Path:
    """Path of the lines that mending moves out of a log: ``<path>.rejected``."""
    return Path(f"{os.fspath(path)}.rejected")


def _mend(log: Path, descriptor: int) -> int:
    content = read_on(descriptor)
    pieces = list(_pieces(log, content))
    rejected = [piece.line for piece in pieces if isinstance(piece, RejectedLine)]
    if not rejected:
        if content and not content.endswith(b"\n"):
            with contextlib.suppress(OSError):  # a sound log may be read-only
                end_line(log)
        return 0
    kept = [_text(piece) for piece in pieces if not isinstance(piece, RejectedLine)]
    if not kept and not any(map(_begins_as_record, rejected)):
        raise RecordError(
            f"{log} has {len(rejected)} lines and no tuning record; give a log of AutoTVM or "
            "auto_scheduler, or move the file away"
        )
    # Should we be killed in between, twice in there is better than lost.
    append_bytes(rejected_path(log), _encoded(rejected))
    replace_file(log, descriptor, _encoded(kept))
    return len(rejected)


def _content(log: Path) -> bytes:
    try:
        with log.open("rb") as file:
            # Where there are no locks, half a line that is being written is seen as torn.
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_SH)
            return file.read()
    except OSError as error:
        raise _failure("read", log, error) from error


def _pieces(log: Path, content: bytes) -> Iterator[TuningRecord | RejectedLine | str]:
    """Records, rejected lines, and comments as text."""
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        text = line.decode(errors="surrogateescape")
        if text.startswith("#") and _is_utf8(text):
            yield text
        else:
            yield from parse_line(text, path=log, line_number=number)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(piece: TuningRecord | str) -> str:
    return piece if isinstance(piece, str) else piece.line


def _begins_as_record(line: str) -> bool:
    beginning = '{"i'
    return line.startswith(beginning) or (bool(line) and beginning.startswith(line))


def _encoded(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode(errors="surrogateescape")


def _failure(verb: str, log: Path, error: OSError) -> RecordError:
    steps = {
        "read": "check the path and its permissions",
        "mend": "make file and folder writable with space left, or work on a copy",
        "write": "make file and folder writable with space left, or give another file",
    }
    reason = error.strerror or str(error)
    return RecordError(f"cannot {verb} the tuning records {log}: {reason}; {steps[verb]}")
