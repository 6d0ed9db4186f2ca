"""Print the stored results of us and the peers as a Markdown table, or write it where it belongs.

::

    python -m tvm_ios_lab.peers.table [--write]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tvm_ios.core.precision.low_precision import FLOAT32
from tvm_ios.errors import TvmIosError
from tvm_ios.report.table import Table
from tvm_ios.support.whole_file import write_text
from tvm_ios_lab.bench.benchmark import around_table, write_between
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.peers.errors import PeerError
from tvm_ios_lab.peers.peer import Peer
from tvm_ios_lab.peers.record import FLOOR_MS, IN_TURN
from tvm_ios_lab.peers.summary import Standing, standing_of, summary_json

__all__ = [
    "MARKERS",
    "SUMMARY",
    "main",
    "peer_cell",
    "peer_table",
    "ratio_cell",
    "read_records",
    "short_table",
    "write_all",
]

MARKERS = ("<!-- peers: begin -->", "<!-- peers: end -->")
"""Lines of a Markdown file between which a table is written."""
SUMMARY = "summary.json"
"""Name of the file beside the records that :func:`write_all` writes."""
_ABSENT = "-"
_FORMS = (Peer.OURS_JOINT, Peer.OURS)
"""Forms of ours, the longer name first."""


def peer_table(records: Sequence[BenchmarkRecord]) -> Table:
    """Table of latencies in ms in float32, a row a network: peers with their better threads, ours.

    Peers that ran nowhere have no column. Where several networks ran together, so does ours with a
    file each, one after another.

    Parameters
    ----------
    records
        Records of one interleaved run each.
    """
    peers = [
        peer
        for peer in Peer
        if peer.precision == FLOAT32 and any(peer_cell(each, peer) != _ABSENT for each in records)
    ]
    rows = [
        (
            record.network,
            str(record.batch_size),
            f"{float(record.facts[FLOOR_MS]):.3f}",
            *(peer_cell(record, peer) for peer in peers),
            *_our_cells(standing_of(record)),
        )
        for record in _fast_ones_first(records)
    ]
    ours = ("sequential", "ours", "which", "best peer / ours")
    names = (IN_TURN if peer is Peer.OURS else peer.value for peer in peers)
    return Table(header=("network", "batch", "floor", *names, *ours), rows=tuple(rows))


def short_table(records: Sequence[BenchmarkRecord]) -> Table:
    """Table with a row for each network that has ours: the best peer, ours, and the ratio."""
    rows = []
    for record in _fast_ones_first(records):
        standing = standing_of(record)
        if standing is not None:
            _, ours, _, ratio = _our_cells(standing)
            peer = f"{standing.best_peer_ms:.3f} ({standing.best_peer})"
            rows.append((record.network, str(record.batch_size), peer, ours, ratio))
    header = ("network", "batch", "best peer, ms", "ours, ms", "best peer / ours")
    return Table(header=header, rows=tuple(rows))


def read_records(folder: Path) -> tuple[BenchmarkRecord, ...]:
    """Records of a folder."""
    paths = sorted(path for path in folder.glob("*.json") if path.name != SUMMARY)
    if not paths:
        raise PeerError(f"no results in {folder}; run python -m tvm_ios_lab.peers.measure first")
    return tuple(BenchmarkRecord.from_json(path.read_text()) for path in paths)


def write_all(records: Sequence[BenchmarkRecord], *, folder: Path, long: Path, short: Path) -> None:
    """Write the summary into ``folder`` and a table between the markers of each Markdown file."""
    if not any(map(standing_of, records)):
        raise PeerError(
            "none of the results has a build of ours; run python -m tvm_ios_lab.peers.ours and "
            "measure again"
        )
    tables = [(long, peer_table(records)), (short, short_table(records))]
    for path, _ in tables:
        around_table(path, MARKERS)  # refused before anything is written
    for path, table in tables:
        write_between(path, table, MARKERS)
    write_text(folder / SUMMARY, summary_json(_fast_ones_first(records)) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or write all of it; 0 when there is one."""
    parser = argparse.ArgumentParser(
        prog="python -m tvm_ios_lab.peers.table",
        description="Print a Markdown table of what measure wrote; latencies in ms, behind them "
        "the number of threads that was faster.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--folder", type=Path, default=Path("lab/results/peers"), help="what measure wrote")
    add("--write", action="store_true", help=f"write FOLDER/{SUMMARY} and the tables of both files")
    add("--long", type=Path, default=Path("lab/README.md"), help="gets the whole table")
    add("--short", type=Path, default=Path("docs/when.md"), help="gets our best and the best peer")
    options = parser.parse_args(arguments)
    try:
        records = read_records(options.folder)
        if options.write:
            write_all(records, folder=options.folder, long=options.long, short=options.short)
        else:
            print(peer_table(records).as_markdown())
    except (OSError, TvmIosError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def ratio_cell(ratio: float, low: float, high: float) -> str:
    """Ratio with its interval."""
    return f"{ratio:.2f} ({low:.2f}-{high:.2f})"


def peer_cell(record: BenchmarkRecord, peer: Peer) -> str:
    """Latency in ms of a peer with its better number of threads, and that number."""
    comparison = record.comparison
    found = [
        (comparison.median_ns(name), name.removeprefix(f"{peer.value}, ").split()[0])
        for name in comparison.names
        if name.rpartition(", ")[0] == peer.value
    ]
    if not found:
        return _ABSENT
    latency_ns, threads = min(found)
    return f"{latency_ns / 1e6:.3f} ({threads})"


def _our_cells(standing: Standing | None) -> tuple[str, str, str, str]:
    """Sequential order, our best, which that is, and the ratio with its interval."""
    if standing is None:
        return (_ABSENT,) * 4
    sequential = standing.sequential_ms
    return (
        _ABSENT if sequential is None else f"{sequential:.3f}",
        f"{standing.ours_ms:.3f}",
        _which(standing),
        ratio_cell(standing.ratio, *standing.interval),
    )


def _which(standing: Standing) -> str:
    """Kernels and schedule of our best."""
    form = next(peer for peer in _FORMS if standing.ours.startswith(f"{peer.value} "))
    return standing.ours.removeprefix(f"{form.value} ").rpartition(", ")[0]


def _fast_ones_first(records: Sequence[BenchmarkRecord]) -> list[BenchmarkRecord]:
    return sorted(
        records, key=lambda record: min(map(record.comparison.median_ns, record.comparison.names))
    )


if __name__ == "__main__":
    sys.exit(main())
