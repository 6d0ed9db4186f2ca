"""Chrome trace JSON of simulated runs, a track a stream, marked as simulated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvm_ios.plan.trace import TraceEvent
from tvm_ios.report.chrome_trace import chrome_trace
from tvm_ios_lab.analytical.timeline import SimulatedRun

__all__ = ["simulated_trace", "write_simulated_trace"]


def simulated_trace(runs: Sequence[SimulatedRun], *, name: str) -> str:
    """JSON text of runs, one after another; the process is named after the model.

    Parameters
    ----------
    runs
        Runs of ``AnalyticalGpuCost.simulate``, by one model.
    name
        Name of what would be run.
    """
    events = []
    begin_ns = stage = 0
    for run in runs:
        events += [
            TraceEvent(
                operator=operator.operator,
                stage=stage + operator.stage,
                group=operator.group,
                lane=operator.group,
                start_ns=begin_ns + operator.start_ns,
                end_ns=begin_ns + operator.end_ns,
            )
            for operator in run.operators
        ]
        begin_ns += run.latency_ns
        stage += len(run.stage_ns)
    source = runs[0].priced_by if runs else "nothing"
    return chrome_trace(events, name=f"{name}, simulated by the {source}")


def write_simulated_trace(runs: Sequence[SimulatedRun], path: Path | str, *, name: str) -> None:
    """Write a trace to a file, which Perfetto opens."""
    Path(path).write_text(simulated_trace(runs, name=name) + "\n", encoding="utf-8")
