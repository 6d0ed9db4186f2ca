"""Text of a ceiling for people: what was counted, a row for each number of lanes, how to read."""

from __future__ import annotations

from tvm_ios.report.labels import duration
from tvm_ios.report.table import Table
from tvm_ios.search.ceiling import Ceiling

__all__ = ["ceiling_text"]

_HOW_TO_READ = """\
Times as fast as sequential order: one operator after another, each split over all lanes where
that pays. A split operator uses idle lanes already, so this is what scheduling can gain. "Unsplit"
is the gain over operators of one lane each, which nobody who has more lanes should compare with.
Times are guessed from operations and bytes, so they rank networks and promise nothing."""


def ceiling_text(ceiling: Ceiling, name: str) -> str:
    """Text on a model's ceiling, of about fifteen lines."""
    share = ceiling.critical_ns / max(1, ceiling.work_ns)
    return "\n".join(
        [
            f"{name}: {ceiling.verdict(ceiling.rows[0])}",
            f"{ceiling.operators} operators, {ceiling.flops / 1e9:.3g} GFLOP, "
            f"{ceiling.memory_bytes / 1e6:.3g} MB read and written",
            f"work {duration(ceiling.work_ns)} on one lane, critical path "
            f"{duration(ceiling.critical_ns)} ({share:.0%} of it)",
            "",
            _rows(ceiling).as_text(),
            "",
            _HOW_TO_READ,
        ]
    )


def _rows(ceiling: Ceiling) -> Table:
    header = ("lanes", "sequential", "at most", "a list reaches", "unsplit: at most", "a list")
    rows = tuple(
        (
            str(row.lanes),
            duration(row.sequential_ns),
            f"{row.at_most:.2f}",
            f"{row.reached:.2f}",
            f"{row.unsplit_at_most:.2f}",
            f"{row.unsplit_reached:.2f}",
        )
        for row in ceiling.rows
    )
    return Table(header=header, rows=rows)
