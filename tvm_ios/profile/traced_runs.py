"""Traced runs of the kept model: times of its stages in the network, lane by lane.

A price is of a stage repeated by itself; here one stage runs after another.
"""

from __future__ import annotations

from tvm_ios.compile.model import CompiledModel
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.profile.race import executors_of
from tvm_ios.runtime.artifact.evidence import TracedRuns

__all__ = ["RUNS_FOR_TRACES", "traced_runs"]

TRACES = 7
WARM_UP = 3
RUNS_FOR_TRACES = WARM_UP + 2 * TRACES
"""Runs of all traces: each trace is of the second of two, since the first finds lanes asleep."""


def traced_runs(model: CompiledModel, session: MeasuringSession) -> TracedRuns:
    """Time the launches of a model on the device of a session, on made-up inputs."""
    with executors_of({model.schedule.scheduler: model}, session) as executors:
        (executor,) = executors.values()
        executor.trace(WARM_UP)
        traces = [executor.trace(2) for _ in range(TRACES)]
    return TracedRuns.of(traces, model.schedule)
