"""Choice among Ansor's kernels: races with TVM's own, task by task, on the network's lanes.

A search that was cut short leaves tasks with kernels slower than TVM's own. Both builds have the
same operators, so each kernel is timed in turn with the one it would replace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import relay

from tvm_ios.compile.built_model import BuiltModel
from tvm_ios.core.schedule import Stage
from tvm_ios.devices.protocol import MeasuringSession
from tvm_ios.measure.compare import CompareOptions, compare
from tvm_ios.measure.comparison import Comparison, Verdict
from tvm_ios.measure.machine_mode import ModeOptions
from tvm_ios.measure.sampling import TimedRuns
from tvm_ios.profile.kernel_variant import unsplit
from tvm_ios.profile.operator_prices import TVM
from tvm_ios.profile.stage_kernels import StageKernels
from tvm_ios.relay import Extraction
from tvm_ios.relay.functions.primitive import kernel_digest
from tvm_ios.tuning.ansor.tasks import ansor_context, workloads_of

__all__ = ["JudgedRecords", "judged_records", "operator_workloads"]

OWN, TUNED = "TVM's own", "tuned"
BRIEF = CompareOptions(rounds=11, min_repeat_ms=1.0, mode=ModeOptions(patience_s=5.0))


@dataclass(frozen=True, slots=True)
class JudgedRecords:
    """Records of a log that have kernels in a model, and those that are slower than TVM's own."""

    workloads: frozenset[str]
    """Workloads of the model's operators that have a record."""
    slower: frozenset[str]
    """Workloads whose record should not be applied: TVM's own kernel wins beyond the noise."""


def judged_records(
    untuned: BuiltModel,
    tuned: BuiltModel,
    recorded: Collection[str],
    *,
    lanes: int,
    session: MeasuringSession,
) -> JudgedRecords:
    """Records that a model has, each raced with TVM's own kernel.

    Operators that differ between the builds are not raced: TVM has its own kernel for a dense layer
    only while auto_scheduler is off. A kernel's time is the lesser of those with the help of all
    lanes and alone.

    Parameters
    ----------
    untuned, tuned
        One model, built without and with records of auto_scheduler.
    recorded
        Workloads that have a record; others are not timed. Their kernels under auto_scheduler may
        be plain loops, which take a thousand times as long.
    """
    keys = operator_workloads(tuned.extraction, tuned.prepared.target)
    workloads = frozenset(key for key in keys if key is not None and key in recorded)
    found = _places(untuned, tuned, keys)
    places = {workload: place for workload, place in found.items() if workload in workloads}
    if not places:
        return JudgedRecords(workloads, slower=frozenset())
    with (
        StageKernels(untuned, lanes=lanes, session=session) as own_runner,
        StageKernels(tuned, lanes=lanes, session=session) as tuned_runner,
    ):
        runners = {OWN: own_runner, TUNED: tuned_runner}
        contestants = {
            f"{workload}: {who}, {how}": time_ns
            for workload, place in places.items()
            for who, runner in runners.items()
            for how, time_ns in _ways_to_run(runner, place)
        }
        comparison = compare(
            contestants,
            options=BRIEF,
            ping_pong_ns=own_runner.ping_pong_ns,
            waits=[runner.waited_ns for runner in runners.values()],
            patience=session.patience,
        )
    slower = frozenset(workload for workload in places if _loses(workload, comparison))
    return JudgedRecords(workloads, slower)


def operator_workloads(extraction: Extraction, target: tvm.target.Target) -> tuple[str | None, ...]:
    """Task of each operator; None where it has none of its own, as without a reduction."""
    known: dict[str, str | None] = {}
    keys: list[str | None] = []
    with ansor_context():
        for call in extraction.calls:
            if not isinstance(call.op, relay.Function):
                keys.append(None)
                continue
            digest = kernel_digest(call.op)
            if digest not in known:
                found = list(workloads_of(_only(call.op), target))
                known[digest] = found[0] if len(found) == 1 else None
            keys.append(known[digest])
    return tuple(keys)


def _only(function: relay.Function) -> tvm.IRModule:
    """Module that calls one fused function."""
    parameters = [relay.Var(old.name_hint, old.checked_type) for old in function.params]
    main = relay.Function(parameters, relay.Call(function, parameters))
    return relay.transform.InferType()(tvm.IRModule.from_expr(main))


def _places(
    untuned: BuiltModel, tuned: BuiltModel, keys: Sequence[str | None]
) -> Mapping[str, int]:
    """Position of an operator of each task that both builds have."""
    operators = untuned.graph.operators, tuned.graph.operators
    if len(operators[0]) != len(operators[1]):
        return {}
    places: dict[str, int] = {}
    for place, (before, after, key) in enumerate(zip(*operators, keys, strict=True)):
        if before.workload == after.workload and key is not None:
            places.setdefault(key, place)
    return places


def _ways_to_run(runner: StageKernels, place: int) -> Iterator[tuple[str, TimedRuns]]:
    """Names and timers of the stages that run one operator, with idle lanes' help and without."""
    graph, stage = runner.graphs[TVM], Stage(((place,),))
    graphs = {"helped": graph}
    if runner.lanes > 1 and runner.idle_lanes_help:
        graphs["alone"] = unsplit(graph, [place])
    for how, marked in graphs.items():
        yield how, runner.prepare(marked, stage).time_ns


def _loses(workload: str, comparison: Comparison) -> bool:
    own, tuned = (
        min(
            (name for name in comparison.names if name.startswith(f"{workload}: {who}")),
            key=comparison.median_ns,
        )
        for who in (OWN, TUNED)
    )
    return comparison.speedup(tuned, over=own).verdict is Verdict.LOSES
