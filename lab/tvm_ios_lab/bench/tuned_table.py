"""The table of untuned and tuned kernels in ``lab/README.md``, from stored records only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvm_ios.driver.races.stock_contestants import STOCK_ALL, STOCK_ONE
from tvm_ios.errors import ArtifactError
from tvm_ios.report.table import Table
from tvm_ios.report.tune_report import Contestant
from tvm_ios_lab.bench.benchmark import read_record, write_between
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.bench.tuned_benchmark import TUNED, UNTUNED, corner

__all__ = ["MARKERS", "tuned_table", "write_tuned_table"]

MARKERS = ("<!-- tuned: begin -->", "<!-- tuned: end -->")


def write_tuned_table(folder: Path, readme: Path) -> None:
    """Put the table of all records between two markers of a Markdown file."""
    found = {path: read_record(path) for path in sorted(folder.glob("*.json"))}
    if not found:
        raise ArtifactError(f"no results in {folder}; run `tvm-ios bench --tuning autotvm` first")
    table = tuned_table([(_backend(path), record) for path, record in found.items()])
    write_between(readme, table, MARKERS)


def _backend(path: Path) -> str:
    """The back end in a file name such as ``NETWORK_bsSIZE.BACKEND.json``."""
    return path.stem.partition(".")[2] or "-"


def tuned_table(found: Sequence[tuple[str, BenchmarkRecord]]) -> Table:
    """A row for each back end of each network, the fast networks first.

    Parameters
    ----------
    found
        Back ends, and what was measured with each.
    """
    fastest_ns: dict[str, float] = {}
    for _, record in found:
        best_ns = min(map(record.comparison.median_ns, record.comparison.names))
        fastest_ns[record.network] = min(best_ns, fastest_ns.get(record.network, best_ns))
    rows = tuple(
        _row(backend, record)
        for backend, record in sorted(
            found, key=lambda each: (fastest_ns[each[1].network], each[1].network, each[0])
        )
    )
    header = (
        "network",
        "tuned by",
        "best TVM ms",
        "untuned sequential ms",
        "untuned IOS ms",
        "tuned sequential ms",
        "tuned IOS ms",
        "kept",
        "kept over best TVM",
        "kept over untuned kept",
        "candidates",
        "tuning s",
    )
    return Table(header=header, rows=rows)


def _row(backend: str, record: BenchmarkRecord) -> tuple[str, ...]:
    comparison = record.comparison
    facts = record.facts
    stock = min((STOCK_ONE, STOCK_ALL), key=comparison.median_ns)
    shown = [stock] + [
        corner(kernels, who)
        for kernels in (UNTUNED, TUNED)
        for who in (Contestant.SEQUENTIAL, Contestant.IOS)
    ]
    kept = facts["kept tuned"]
    ratios = []
    for base in (stock, facts["kept untuned"]):
        speedup = comparison.speedup(kept, over=base)
        ratios.append(f"{speedup.ratio:.3f} ({speedup.low:.3f}-{speedup.high:.3f})")
    measured, known = (int(facts.get(f"candidates {kind}", "0")) for kind in ("measured", "known"))
    return (
        record.network,
        backend,
        *(f"{comparison.median_ns(name) / 1e6:.3f}" for name in shown),
        kept,
        *ratios,
        str(measured + known),
        # Of a log that was there before, nobody knows what it took.
        "-" if known else facts.get("tune s", "-"),
    )
