"""``tvm-ios records``: shows, picks, merges and checks tuning logs; no TVM is needed."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_ios.errors import OptionError
from tvm_ios.report.records_in_force import RecordFormat
from tvm_ios.tuning.records.record_table import printable, record_table
from tvm_ios.tuning.records.records import (
    RecordLog,
    TuningRecord,
    best_records,
    mend_records,
    read_records,
    rejected_path,
    write_records,
)

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]

DEFAULT_LIMIT = 50
REASONS = 20
"""Largest number of reasons that a person is shown."""
_FORCE_HELP = "replace the output if it is there, be it an input or not"


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb, its actions, and the options of each."""
    parser = subparsers.add_parser(
        "records",
        description="Show, pick, merge and check logs of tuning records. AutoTVM's and "
        "auto_scheduler's formats are known by their lines; TVM reads what is written.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    show = _add_action(actions, "show", _show, "list the records")
    _add_format(show)
    show.add_argument(
        "--limit",
        type=int,
        default=DEFAULT_LIMIT,
        metavar="N",
        help="most records to list; 0 lists all (default: %(default)s)",
    )

    best = _add_action(actions, "best", _best, "pick the fastest records of every workload")
    _add_format(best)
    best.add_argument("--output", type=Path, metavar="FILE", help="a log of them (default: a list)")
    best.add_argument("--force", action="store_true", help=_FORCE_HELP)
    best.add_argument(
        "--per-workload",
        type=int,
        default=1,
        metavar="N",
        help="most candidates of one workload on one target (default: %(default)s)",
    )

    merge = _add_action(actions, "merge", _merge, "put the records of several logs into one")
    _add_format(merge)
    merge.add_argument("--output", type=Path, metavar="FILE", required=True, help="the log")
    merge.add_argument("--force", action="store_true", help=_FORCE_HELP)

    check = _add_action(
        actions,
        "check",
        _check,
        "count records and lines that are none; exit status 1 if there are such lines",
    )
    check.add_argument(
        "--fix",
        action="store_true",
        help="move the lines that are no records to FILE.rejected; exit status 0 if that worked",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the chosen action; return its exit status."""
    status: int = arguments.action(arguments)
    return status


def _add_action(
    actions: Subparsers, name: str, action: Any, summary: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a log")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(action=action)
    return parser


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=[each.value for each in RecordFormat],
        help="take records of this format only",
    )


def _show(arguments: argparse.Namespace) -> int:
    if arguments.limit < 0:
        raise OptionError(f"--limit is {arguments.limit}; give 0 for all, or more")
    log = _read(arguments)
    listed = log.records[: arguments.limit or None]
    if arguments.json:
        _print_json(log, records=list(map(_as_json, listed)))
        return 0
    print(record_table(listed).as_text())
    left = len(log.records) - len(listed)
    if left:
        print(f"and {left} more; --limit 0 lists all")
    return 0


def _best(arguments: argparse.Namespace) -> int:
    log = _read(arguments)
    best = best_records(log.records, per_workload=arguments.per_workload)
    if best and arguments.output:
        _write(best, arguments)
    if arguments.json:
        _print_json(log, best=list(map(_as_json, best)))
    elif not best:
        print(f"none of {len(log.records)} records ran")
    elif arguments.output:
        print(f"{len(best)} of {len(log.records)} records are in {arguments.output}")
    else:
        print(record_table(best).as_text())
    return 0 if best else 1


def _merge(arguments: argparse.Namespace) -> int:
    log = _read(arguments)
    kept = tuple({record.line: record for record in log.records}.values())
    duplicates = len(log.records) - len(kept)
    if kept:
        _write(kept, arguments)
    if arguments.json:
        _print_json(log, kept=len(kept), duplicates=duplicates)
    elif kept:
        print(f"{len(kept)} records are in {arguments.output}, {duplicates} duplicates left out")
    else:
        print("there are no records")
    return 0 if kept else 1


def _check(arguments: argparse.Namespace) -> int:
    logs = [read_records(path) for path in arguments.files]
    # Mending takes away the lines that are told of, so it comes after reading.
    moved = [mend_records(path) if arguments.fix else 0 for path in arguments.files]
    answers = list(map(_checked, arguments.files, logs, moved))
    if arguments.json:
        print(json.dumps({"files": answers}, indent=1))
    else:
        print("\n".join(line for answer in answers for line in _check_lines(answer)))
    return 1 if any(log.rejected for log in logs) and not arguments.fix else 0


def _read(arguments: argparse.Namespace) -> RecordLog:
    """Logs with the records of the wanted format; a note tells of lines that are none."""
    log = read_records(*arguments.files)
    if log.rejected:
        places = " ".join(sorted({str(line.path) for line in log.rejected}))
        print(
            f"tvm-ios: note: {len(log.rejected)} lines are no records; for the reasons, run: "
            f"tvm-ios records check {places}",
            file=sys.stderr,
        )
    wanted = arguments.format
    return RecordLog(
        records=tuple(each for each in log.records if wanted in (None, each.format.value)),
        rejected=log.rejected,
    )


def _write(records: Sequence[TuningRecord], arguments: argparse.Namespace) -> None:
    if len({record.format for record in records}) > 1:
        raise OptionError(
            "the records are of both formats, and TVM reads logs of one; add "
            + " or ".join(f"--format {each.value}" for each in RecordFormat)
        )
    write_records(arguments.output, records, force=arguments.force)


def _checked(path: Path, log: RecordLog, moved: int) -> dict[str, Any]:
    counts = Counter((record.format, record.ok) for record in log.records)
    return {
        "path": str(path),
        **{
            each.value: {"ok": counts[each, True], "failed": counts[each, False]}
            for each in RecordFormat
        },
        "rejected": [{"line": each.line_number, "reason": each.reason} for each in log.rejected],
        "moved": moved,
    }


def _check_lines(answer: dict[str, Any]) -> Iterator[str]:
    path = answer["path"]
    counts = {each.value: answer[each.value] for each in RecordFormat}
    present = {name: each for name, each in counts.items() if any(each.values())}
    found = [
        f"{sum(each.values())} of {name}, of which {each['failed']} failed"
        for name, each in present.items()
    ]
    rejected = answer["rejected"]
    yield f"{path}: {'; '.join(found) or 'no records'}; {len(rejected)} lines rejected"
    for line in rejected[:REASONS]:
        yield f"  line {line['line']}: {printable(line['reason'])}"
    if len(rejected) > REASONS:
        yield f"  and {len(rejected) - REASONS} more; --json lists all"
    if answer["moved"]:
        yield f"  {answer['moved']} lines were moved to {rejected_path(path)}"
    elif rejected:
        yield f"  to move them to {rejected_path(path)}, run: tvm-ios records check --fix {path}"
    if len(present) > 1:
        yield (
            "  TVM reads logs of one format; to split this one, run: tvm-ios records merge "
            f"{path} --format NAME --output FILE"
        )


def _print_json(log: RecordLog, **answer: Any) -> None:
    print(json.dumps({**answer, "read": len(log.records), "rejected": len(log.rejected)}, indent=1))


def _as_json(record: TuningRecord) -> dict[str, Any]:
    return {
        "format": record.format.value,
        "workload": record.workload,
        "target": record.target,
        "best_ms": min(record.costs_s) * 1e3 if record.ok else None,
        "mean_ms": record.mean_s * 1e3 if record.ok else None,
        "error": record.error,
        "path": str(record.path),
        "line": record.line_number,
    }
