"""Print the stored race of the unseen networks as a Markdown table, or write it and its summary.

::

    python -m tvm_ios_lab.peers.unseen.table [--write]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import geometric_mean

from tvm_ios.errors import TvmIosError
from tvm_ios.report.table import Table
from tvm_ios.support.whole_file import write_text
from tvm_ios_lab.bench.benchmark import around_table, write_between
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.peers.peer import Peer
from tvm_ios_lab.peers.record import FLOOR_MS
from tvm_ios_lab.peers.summary import Standing, standing_of
from tvm_ios_lab.peers.table import SUMMARY, peer_cell, ratio_cell, read_records
from tvm_ios_lab.peers.unseen.catalogue import UNSEEN, Half, half_of

__all__ = ["MARKERS", "OURS", "main", "unseen_summary", "unseen_table"]

MARKERS = ("<!-- unseen: begin -->", "<!-- unseen: end -->")
"""Lines of a Markdown file between which the table is written."""
OURS = "ours"
"""Name of the set of kernels in the table; others in a record take no part."""
_PEERS = (Peer.ONNXRUNTIME, Peer.OPENVINO)
_ABSENT = "-"


def unseen_table(records: Iterable[BenchmarkRecord]) -> Table:
    """Table of latencies in ms, a row a network, the half that was seen first."""
    exporters = {unseen.name: unseen.exporter.value for unseen in UNSEEN}
    rows = [
        (
            record.network,
            half_of(record.network).value,
            exporters.get(record.network, _ABSENT),
            f"{float(record.facts[FLOOR_MS]):.3f}",
            *(peer_cell(record, peer) for peer in _PEERS),
            *_cells(standing),
        )
        for record, standing in _standings(records)
    ]
    times = ("floor", *(peer.value for peer in _PEERS), OURS, "which", "best peer / ours")
    return Table(header=("network", "half", "exporter", *times), rows=tuple(rows))


def unseen_summary(records: Iterable[BenchmarkRecord]) -> str:
    """JSON with the geometric mean and the least ratio of each half, and the standings."""
    found = [
        (half_of(record.network), standing)
        for record, standing in _standings(records)
        if standing is not None
    ]
    halves = {half.value: _mean([s for each, s in found if each is half]) for half in Half}
    standings = [{"half": half.value, **asdict(standing)} for half, standing in found]
    return json.dumps({"halves": halves, "standings": standings}, indent=1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or write it and the summary; 0 when there is one."""
    parser = argparse.ArgumentParser(
        prog="python -m tvm_ios_lab.peers.unseen.table",
        description="Print a Markdown table of the race of unseen networks; latencies in ms, "
        "behind those of peers the number of threads that was faster.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--folder", type=Path, default=Path("lab/results/unseen"), help="what measure wrote")
    add("--write", action="store_true", help=f"write FOLDER/{SUMMARY} and the table of README")
    add("--readme", type=Path, default=Path("lab/README.md"), help="gets the table")
    options = parser.parse_args(arguments)
    try:
        records = read_records(options.folder)
        table = unseen_table(records)
        if not options.write:
            print(table.as_markdown())
            return 0
        around_table(options.readme, MARKERS)  # refused before anything is written
        write_between(options.readme, table, MARKERS)
        write_text(options.folder / SUMMARY, unseen_summary(records) + "\n")
    except (OSError, TvmIosError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _standings(
    records: Iterable[BenchmarkRecord],
) -> list[tuple[BenchmarkRecord, Standing | None]]:
    """Records with our standing in each, the half that was seen first."""
    ordered = sorted(
        records, key=lambda each: (half_of(each.network) is Half.KEPT_BACK, each.network)
    )
    return [(record, standing_of(record, kernels=OURS)) for record in ordered]


def _mean(standings: Sequence[Standing]) -> dict[str, float]:
    ratios = [standing.ratio for standing in standings]
    if not ratios:
        return {"networks": 0}
    mean = round(geometric_mean(ratios), 3)
    return {"networks": len(ratios), "geometric_mean": mean, "least": round(min(ratios), 3)}


def _cells(standing: Standing | None) -> tuple[str, str, str]:
    """Our latency, the schedule that has it, and the ratio to the best peer."""
    if standing is None:
        return _ABSENT, _ABSENT, _ABSENT
    schedule = standing.ours.rpartition(", ")[0].split(" ", 2)[2]
    return f"{standing.ours_ms:.3f}", schedule, ratio_cell(standing.ratio, *standing.interval)


if __name__ == "__main__":
    sys.exit(main())
