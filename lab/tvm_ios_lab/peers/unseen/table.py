"""Print the stored race of the unseen networks as a Markdown table, or write it and its summary.

::

    python -m tvm_ios_lab.peers.unseen.table [--write]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
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

__all__ = ["BEFORE", "MARKERS", "OURS", "main", "unseen_summary", "unseen_table"]

MARKERS = ("<!-- unseen: begin -->", "<!-- unseen: end -->")
"""Lines of a Markdown file between which the table is written."""
BEFORE, OURS = "before", "ours"
"""Names of two sets of kernels: those of an earlier version, where they took part, and ours."""
_PEERS = (Peer.ONNXRUNTIME, Peer.OPENVINO)
_ABSENT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Race:
    """Standing of both sets of kernels in one interleaved run."""

    record: BenchmarkRecord
    ours: Standing | None
    before: Standing | None

    @property
    def half(self) -> Half:
        return half_of(self.record.network)


def unseen_table(records: Iterable[BenchmarkRecord]) -> Table:
    """Table of latencies in ms, a row a network, the half that was seen first."""
    exporters = {unseen.name: unseen.exporter.value for unseen in UNSEEN}
    rows = [
        (
            race.record.network,
            race.half.value,
            exporters.get(race.record.network, _ABSENT),
            f"{float(race.record.facts[FLOOR_MS]):.3f}",
            *(peer_cell(race.record, peer) for peer in _PEERS),
            _ms(race.before),
            _ms(race.ours),
            _ABSENT if race.ours is None else race.ours.ours.rpartition(", ")[0].split(" ", 2)[2],
            _speedup(race),
            _ABSENT if race.before is None else f"{race.before.ratio:.2f}",
            _ratio(race.ours),
        )
        for race in _races(records)
    ]
    ratios = ("before / ours", "best peer / before", "best peer / ours")
    times = ("floor", *(peer.value for peer in _PEERS), BEFORE, OURS, "which")
    return Table(header=("network", "half", "exporter", *times, *ratios), rows=tuple(rows))


def unseen_summary(records: Iterable[BenchmarkRecord]) -> str:
    """JSON with the geometric mean and the least ratio of each half, and the standings."""
    races = _races(records)
    halves = {half.value: [race for race in races if race.half is half] for half in Half}
    found = {
        name: {
            "networks": len(each),
            **_means(OURS, [race.ours for race in each]),
            **_means(BEFORE, [race.before for race in each]),
        }
        for name, each in halves.items()
    }
    standings = [
        {"half": race.half.value, name: asdict(standing)}
        for race in races
        for name, standing in ((BEFORE, race.before), (OURS, race.ours))
        if standing is not None
    ]
    return json.dumps({"halves": found, "standings": standings}, indent=1)


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


def _races(records: Iterable[BenchmarkRecord]) -> list[_Race]:
    races = [
        _Race(
            record=record,
            ours=standing_of(record, kernels=OURS),
            before=standing_of(record, kernels=BEFORE),
        )
        for record in records
    ]
    return sorted(races, key=lambda race: (race.half is Half.KEPT_BACK, race.record.network))


def _means(name: str, standings: Sequence[Standing | None]) -> dict[str, float]:
    ratios = [standing.ratio for standing in standings if standing is not None]
    if not ratios:
        return {}
    mean = round(geometric_mean(ratios), 3)
    return {f"{name}_geometric_mean": mean, f"{name}_least": round(min(ratios), 3)}


def _ms(standing: Standing | None) -> str:
    return _ABSENT if standing is None else f"{standing.ours_ms:.3f}"


def _ratio(standing: Standing | None) -> str:
    return _ABSENT if standing is None else ratio_cell(standing.ratio, *standing.interval)


def _speedup(race: _Race) -> str:
    if race.ours is None or race.before is None:
        return _ABSENT
    found = race.record.comparison.speedup(race.ours.ours, over=race.before.ours)
    return ratio_cell(found.ratio, found.low, found.high)


if __name__ == "__main__":
    sys.exit(main())
