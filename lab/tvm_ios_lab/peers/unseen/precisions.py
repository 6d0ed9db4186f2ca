"""Print the stored race in float32 and at defaults as two Markdown tables, or write them.

At defaults, OpenVINO computes in bfloat16 where the processor can. It meets our builds that were
tuned for bfloat16. Everything of a network is of one interleaved run.

::

    python -m tvm_ios_lab.peers.unseen.precisions [--folder FOLDER ...] [--write]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import geometric_mean

from tvm_ios.core.precision.low_precision import BFLOAT16
from tvm_ios.errors import TvmIosError
from tvm_ios.measure.comparison import Speedup
from tvm_ios.report.table import Table
from tvm_ios_lab.bench.benchmark import around_table, write_between
from tvm_ios_lab.bench.records import BenchmarkRecord
from tvm_ios_lab.peers.record import ERROR
from tvm_ios_lab.peers.summary import Standing, standing_of
from tvm_ios_lab.peers.table import ratio_cell, read_records
from tvm_ios_lab.peers.unseen.catalogue import UNSEEN, Half, half_of

__all__ = ["MARKERS", "SUMMARY_MARKERS", "Standings", "main", "means_table", "precision_table"]

MARKERS = ("<!-- precisions: begin -->", "<!-- precisions: end -->")
"""Lines of a Markdown file between which the table of networks is written."""
SUMMARY_MARKERS = ("<!-- precision means: begin -->", "<!-- precision means: end -->")
"""Lines between which the table of means is written."""
LARGE_MS = 10.0
"""Least latency of ours in float32 where a network is a large one."""
_OWN = "tvm_ios.models"
_GROUPS = (Half.SEEN.value, Half.KEPT_BACK.value, _OWN)
_ABSENT = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standings:
    """Standings of a network in one interleaved run."""

    network: str
    float32: Standing | None
    """Ours in float32 against the best peer in float32."""
    default: Standing | None
    """Ours tuned for bfloat16 against OpenVINO as it comes."""
    gain: Speedup | None
    """Ours tuned for bfloat16 over ours in float32."""
    errors: tuple[str, str]
    """Errors of OpenVINO and ours in :attr:`default`: largest difference of an output, by the
    largest value of the reference."""

    @classmethod
    def of(cls, record: BenchmarkRecord) -> Standings:
        """Standings in a record."""
        float32, default = standing_of(record), standing_of(record, precision=BFLOAT16)
        gain, errors = None, (_ABSENT, _ABSENT)
        if default:
            told = [record.facts[f"{ERROR} {name}"] for name in (default.best_peer, default.ours)]
            errors = told[0], told[1]
        if float32 and default:
            gain = record.comparison.speedup(default.ours, over=float32.ours)
        return cls(
            network=record.network, float32=float32, default=default, gain=gain, errors=errors
        )

    @property
    def group(self) -> str:
        """Half of the unseen networks, or that it is one of the project's own."""
        unseen = self.network in {each.name for each in UNSEEN}
        return half_of(self.network).value if unseen else _OWN

    def ratios(self) -> dict[str, float]:
        """Ratios by what they are of."""
        found = {}
        if self.float32:
            found["best peer / ours, float32"] = self.float32.ratio
        if self.default:
            found["OpenVINO / ours, defaults"] = self.default.ratio
        if self.float32 and self.gain:
            size = "from" if self.float32.ours_ms >= LARGE_MS else "below"
            found[f"ours, float32 / bfloat16, {size} {LARGE_MS:g} ms"] = self.gain.ratio
        return found


def precision_table(found: Sequence[Standings]) -> Table:
    """Table with a row a network: latencies in ms, ratios with intervals, errors in bfloat16."""
    rows = [
        (
            each.network,
            each.group,
            *_standing_cells(each.float32),
            *_standing_cells(each.default),
            _ABSENT if each.gain is None else f"{each.gain.ratio:.2f}",
            *each.errors,
        )
        for each in found
    ]
    return Table(
        header=(
            *("network", "group", "best peer, float32", "ours", "best peer / ours"),
            *("OpenVINO, default", "ours, bfloat16", "OpenVINO / ours"),
            *("ours, float32 / bfloat16", "OpenVINO's error", "our error"),
        ),
        rows=tuple(rows),
    )


def means_table(found: Sequence[Standings]) -> Table:
    """Table with a row for each ratio and group of networks: mean, wins, and the least."""
    ratios = [(each, what, ratio) for each in found for what, ratio in each.ratios().items()]
    rows = []
    for what in dict.fromkeys(what for _, what, _ in ratios):
        for group in ("all", *_GROUPS):
            some = {
                each.network: ratio
                for each, name, ratio in ratios
                if name == what and group in ("all", each.group)
            }
            if some:
                least = min(some, key=some.__getitem__)
                wins = sum(ratio >= 1 for ratio in some.values())
                mean = f"{geometric_mean(some.values()):.3f}"
                counts = str(len(some)), str(wins)
                rows.append((what, group, mean, *counts, f"{some[least]:.3f} ({least})"))
    header = ("ratio", "group", "geometric mean", "networks", "at or above 1", "least")
    return Table(header=header, rows=tuple(rows))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables, or write them; 0 when there is one."""
    parser = argparse.ArgumentParser(
        prog="python -m tvm_ios_lab.peers.unseen.precisions",
        description="Print Markdown tables of a race in float32 and at defaults; latencies in ms, "
        "errors by the largest value of the reference.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    folders = [Path("lab/results/bfloat16")]
    add("--folder", type=Path, nargs="+", default=folders, help="what measure wrote")
    add("--write", action="store_true", help="write the tables of README")
    add("--readme", type=Path, default=Path("lab/README.md"), help="gets the tables")
    options = parser.parse_args(arguments)
    try:
        records = chain.from_iterable(map(read_records, options.folder))
        found = _ordered(map(Standings.of, records))
        tables = {MARKERS: precision_table(found), SUMMARY_MARKERS: means_table(found)}
        if not options.write:
            print("\n\n".join(table.as_markdown() for table in tables.values()))
            return 0
        for markers in tables:
            around_table(options.readme, markers)  # refused before anything is written
        for markers, table in tables.items():
            write_between(options.readme, table, markers)
    except (OSError, TvmIosError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _ordered(found: Iterable[Standings]) -> list[Standings]:
    return sorted(found, key=lambda each: (_GROUPS.index(each.group), each.network))


def _standing_cells(standing: Standing | None) -> tuple[str, str, str]:
    """Latency of the best peer, ours, and their ratio."""
    if standing is None:
        return _ABSENT, _ABSENT, _ABSENT
    ratio = ratio_cell(standing.ratio, *standing.interval)
    return f"{standing.best_peer_ms:.3f}", f"{standing.ours_ms:.3f}", ratio


if __name__ == "__main__":
    sys.exit(main())
