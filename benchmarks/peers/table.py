"""Print the stored results of the peers as a Markdown table, our own latencies beside them.

::

    python -m benchmarks.peers.table [--ours benchmarks/results]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.peers.errors import PeerError
from benchmarks.peers.peer import Peer
from benchmarks.peers.record import FLOOR_MS
from tvm_ios.errors import TvmIosError
from tvm_ios.report.records import BenchmarkRecord
from tvm_ios.report.table import Table

__all__ = ["main", "peer_table", "read_records"]

_KEPT = "kept"
_ABSENT = "-"


def peer_table(
    records: Sequence[BenchmarkRecord], ours: Mapping[str, BenchmarkRecord] | None = None
) -> Table:
    """One row a network: latency in ms of each peer with its better number of threads.

    Parameters
    ----------
    records
        Of the peers.
    ours
        By network: records of ``tvm-ios bench``, of which the kept schedule is shown.
    """
    ours = ours or {}
    rows = []
    for record in sorted(records, key=_best_ns):
        cells = [_peer_cell(record, peer) for peer in Peer]
        if ours:
            cells.extend(_our_cells(_best_ns(record), ours.get(record.network)))
        floor_ms = float(_facts(record)[FLOOR_MS])
        best_ms = _best_ns(record) / 1e6
        rows.append((record.network, f"{floor_ms:.3f}", f"{best_ms:.3f}", *cells))
    header = ("network", "floor", "best peer", *(peer.value for peer in Peer))
    return Table(
        header=(*header, "tvm-ios", "best peer / tvm-ios") if ours else header, rows=tuple(rows)
    )


def read_records(folder: Path) -> tuple[BenchmarkRecord, ...]:
    """All records of a folder.

    Raises
    ------
    PeerError
        If there is none.
    ArtifactError
        If a file is no record.
    """
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise PeerError(f"no results in {folder}; run python -m benchmarks.peers.measure first")
    return tuple(BenchmarkRecord.from_json(path.read_text()) for path in paths)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 when there is one."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers.table",
        description="Print a Markdown table of what measure wrote; latencies in ms, behind them "
        "the number of threads that was faster.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--folder", type=Path, default=Path("benchmarks/results/peers"), help="what measure wrote")
    add("--ours", type=Path, metavar="FOLDER", help="what `tvm-ios bench` wrote")
    options = parser.parse_args(arguments)
    try:
        records = read_records(options.folder)
        ours = read_records(options.ours) if options.ours else ()
        print(peer_table(records, {record.network: record for record in ours}).as_markdown())
    except (OSError, TvmIosError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _peer_cell(record: BenchmarkRecord, peer: Peer) -> str:
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


def _our_cells(best_ns: float, record: BenchmarkRecord | None) -> tuple[str, str]:
    kept = _facts(record).get(_KEPT) if record else None
    if record is None or kept is None:
        return _ABSENT, _ABSENT
    latency_ns = record.comparison.median_ns(kept)
    return f"{latency_ns / 1e6:.3f}", f"{best_ns / latency_ns:.2f}"


def _best_ns(record: BenchmarkRecord) -> float:
    return min(map(record.comparison.median_ns, record.comparison.names))


def _facts(record: BenchmarkRecord) -> dict[str, str]:
    return {fact.name: fact.value for fact in record.facts}


if __name__ == "__main__":
    sys.exit(main())
