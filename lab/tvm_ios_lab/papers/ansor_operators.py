"""Single operators of Ansor's artifact: their best programs, as searched on this CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tvm_ios.report.table import Table
from tvm_ios_lab.cells.ansor_operators import (
    MeasuredOperator,
    NhwcConvolution,
    OperatorCell,
    SingleOperator,
    SquareProduct,
)
from tvm_ios_lab.figures.chart import Bars, Panel, Series
from tvm_ios_lab.harness.cpu_run import cpu_run
from tvm_ios_lab.harness.kernel_source import kernel_source
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings, table_of

__all__ = ["OPERATORS", "AnsorOperators"]

TRIALS, QUICK_TRIALS = 1000, 64
"""Candidates with ``--tune``; the artifact measures 1000 of each."""
PUBLISHED = {"matmul-512": (744.05, 0.361)}
"""GFLOPS and milliseconds of its sample output, after 100 candidates."""


OPERATORS: Mapping[str, SingleOperator] = MappingProxyType(
    {
        "matmul-512": SquareProduct(size=512),
        "matmul-1024": SquareProduct(size=1024),
        "nhwc-resnet-50.C0": NhwcConvolution(
            size=224, channels_in=3, channels_out=64, kernel=7, stride=2, padding=3
        ),
        "nhwc-resnet-50.C2": NhwcConvolution(
            size=56, channels_in=256, channels_out=128, kernel=1, stride=2, padding=0
        ),
    }
)
"""Operators that the artifact's instructions search, under its names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsorOperators:
    """The artifact's warm-up and its examples of single operators."""

    name: str = "ansor-operators"
    title: str = "Single operators searched by Ansor: best program, GFLOPS, cost"
    published: str = (
        "README of Ansor's artifact (Zheng et al., OSDI 2020), sample output after 100 candidates; "
        "it names no machine for it, and its evaluation ran on 18 cores of an Intel Xeon Platinum "
        "8124M with AVX-512."
    )
    notes: tuple[str, ...] = (
        "Measured on this CPU with the best record of the committed log "
        "`lab/records/ansor_operators.auto_scheduler.log`; with `--tune` each is searched "
        "into a log of its own. *Another log* is another version of it, and of *unknown log* are "
        "cells that kept none. GFLOPS are the operator's floating-point operations by the median "
        "time. The lowered IR of each best program lies beside this table, OPERATOR.txt, and "
        "stands in the JSON.",
    )
    found_kind: type[MeasuredOperator] = MeasuredOperator

    def cells(self, settings: Settings) -> tuple[OperatorCell, ...]:
        """Cells of all operators."""
        return tuple(
            OperatorCell(
                operator=operator,
                run=cpu_run(settings, has_sizes=False),
                source=kernel_source(settings, quick_trials=QUICK_TRIALS, trials=TRIALS),
            )
            for operator in OPERATORS
        )

    def measure(self, cell: OperatorCell, bench: Bench) -> MeasuredOperator:
        """Search where asked for, then time the best program."""
        from tvm_ios_lab.measured.operators import measured  # noqa: PLC0415 - loads TVM

        return measured(cell, OPERATORS[cell.operator], bench)

    def table(self, outcomes: Sequence[Outcome[OperatorCell, MeasuredOperator]]) -> Table:
        """A row for each operator."""
        header = (
            "operator",
            "reads",
            "MFLOP",
            "cost ms",
            "GFLOPS",
            "records",
            "log",
            "lowered IR",
            "published cost ms (artifact)",
            "published GFLOPS (artifact)",
        )
        return table_of(header, outcomes, _rows)

    def panels(
        self, outcomes: Sequence[Outcome[OperatorCell, MeasuredOperator]]
    ) -> tuple[Panel, ...]:
        """GFLOPS by operator."""
        here = [each for each in outcomes if each.found is not None]
        if not here:
            return ()
        told = [PUBLISHED.get(each.cell.operator) for each in here]
        series = [
            Series(
                name="best program here",
                values=tuple(each.found.gflops for each in here if each.found),
            ),
            Series(
                name="artifact",
                values=tuple(None if each is None else each[0] for each in told),
                published=True,
            ),
        ]
        return (
            Bars(
                title="Single operators on this CPU, searched by Ansor",
                y_label="GFLOPS",
                groups=tuple(each.cell.operator.replace("nhwc-", "nhwc-\n") for each in here),
                series=tuple(series),
            ),
        )


def _rows(cell: OperatorCell, found: MeasuredOperator) -> list[tuple[str, ...]]:
    operator = OPERATORS[cell.operator]
    told = PUBLISHED.get(cell.operator)
    return [
        (
            cell.operator,
            operator.shapes,
            f"{operator.flops / 1e6:.1f}",
            f"{found.ms:.3f}",
            f"{found.gflops:.1f}",
            str(found.candidates),
            found.log + cell.source.remark(found.log_digest, found.log),
            found.program,
            "-" if told is None else f"{told[1]:.3f}",
            "-" if told is None else f"{told[0]:.2f}",
        )
    ]
