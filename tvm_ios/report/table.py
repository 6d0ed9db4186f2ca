"""Plain tables of latencies and ratios, aligned for a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.errors import OptionError
from tvm_ios.measure.comparison import Comparison
from tvm_ios.support.printable import printable

__all__ = ["Table", "comparison_table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts; the first column is aligned left, all others right.

    Raises
    ------
    OptionError
        If a row has more or fewer cells than the header.
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise OptionError(
                    f"table row {row} has {len(row)} cells, the header {self.header} has "
                    f"{len(self.header)}; give every row a cell for each column"
                )

    def as_text(self) -> str:
        """Text with columns two spaces apart, under a header with a rule."""
        rows = [tuple(printable(cell, keep="") for cell in row) for row in self.rows]
        widths = [max(map(len, each)) for each in zip(self.header, *rows, strict=True)]
        rule = tuple("-" * width for width in widths)
        lines = [self._aligned(row, widths) for row in (self.header, rule, *rows)]
        return "\n".join("  ".join(cells).rstrip() for cells in lines)

    def as_markdown(self) -> str:
        """Markdown that is aligned in its source, too."""
        header, *rows = (tuple(map(_escaped, row)) for row in (self.header, *self.rows))
        widths = [max(3, *map(len, column)) for column in zip(header, *rows, strict=True)]
        rule = tuple(
            "-" * width if column == 0 else "-" * (width - 1) + ":"
            for column, width in enumerate(widths)
        )
        lines = [self._aligned(row, widths) for row in (header, rule, *rows)]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)

    def _aligned(self, row: Sequence[str], widths: Sequence[int]) -> list[str]:
        first, *others = row
        return [
            first.ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)),
        ]


def _escaped(cell: str) -> str:
    """Cell for Markdown, in which a bar would begin another cell, a new line another row."""
    return " ".join(cell.splitlines()).replace("|", r"\|")


def comparison_table(comparison: Comparison, *, baselines: Sequence[str]) -> Table:
    """Table with a row for each contestant: median latency, and speedup over each baseline.

    A ratio is the median over the interleaved rounds, followed by its confidence interval.
    """
    rows = []
    for name in comparison.names:
        ratios = [comparison.speedup(name, over=baseline) for baseline in baselines]
        cells = [
            "1"
            if ratio.contestant == ratio.over
            else f"{ratio.ratio:.3f} ({ratio.low:.3f}-{ratio.high:.3f})"
            for ratio in ratios
        ]
        rows.append((name, f"{comparison.median_ns(name) / 1e6:.4f}", *cells))
    header = ("contestant", "median ms", *(f"times as fast as {name}" for name in baselines))
    return Table(header=header, rows=tuple(rows))
