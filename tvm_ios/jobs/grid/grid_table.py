"""The table of a grid: a row for each cell that is over, as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from tvm_ios.jobs.grid.cell_result import CellResult

__all__ = ["grid_csv"]

PHASE = "mean_{}_s"


def grid_csv(results: Sequence[CellResult]) -> str:
    """A line of names and one for each result.

    Columns are the parameters; repeat, status, seconds; for each phase of ``tune`` the mean over
    the cell's calls, in seconds; mean seconds that its stages waited for others, and the share of
    its time in which it measured, both empty where it failed; the latency with its interval and
    whether a service level was met; how many candidates were measured, and how many of them failed;
    commit, machine, and why a cell failed.
    """
    rows = [_row(result) for result in results]
    phases = [{} if each.report is None else each.report.context.mean_phase_s for each in results]
    parameters = _names(result.parameters for result in results)
    header = (
        *parameters,
        "repeat",
        "status",
        "seconds",
        *(PHASE.format(name.replace(" ", "_")) for name in _names(phases)),
        "mean_waiting_s",
        "utilisation",
        "latency_ms",
        "latency_low_ms",
        "latency_high_ms",
        "sla_met",
        "candidates",
        "failures",
        "commit",
        "machine",
        "message",
    )
    text = io.StringIO()
    writer = csv.DictWriter(text, header, restval="", lineterminator="\n")
    writer.writeheader()
    for result, row, phase_s in zip(results, rows, phases, strict=True):
        columns = {PHASE.format(n.replace(" ", "_")): f"{s:.3f}" for n, s in phase_s.items()}
        writer.writerow({**result.parameters, **row, **columns})
    return text.getvalue()


def _row(result: CellResult) -> dict[str, object]:
    row: dict[str, object] = {
        "repeat": result.repeat,
        "status": result.status.value,
        "seconds": f"{result.seconds:.3f}",
        "candidates": result.trials,
        "failures": result.failures,
        "commit": result.commit,
        "machine": result.machine,
        "message": result.message,
    }
    if result.job is not None:
        row["mean_waiting_s"] = f"{result.job.waiting_s:.3f}"
        row["utilisation"] = f"{result.job.utilisation:.3f}"
    report = result.report
    if report is not None and report.latency is not None:
        row["latency_ms"] = f"{report.latency.median_ms:.6f}"
        row["latency_low_ms"] = f"{report.latency.low_ms:.6f}"
        row["latency_high_ms"] = f"{report.latency.high_ms:.6f}"
    if report is not None and report.service_level is not None:
        row["sla_met"] = report.service_level.is_met
    return row


def _names(mappings: Iterable[Mapping[str, object]]) -> tuple[str, ...]:
    """Keys of all, in the order in which they come."""
    return tuple(dict.fromkeys(name for mapping in mappings for name in mapping))
