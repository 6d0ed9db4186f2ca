"""Rows of a profile: medians over runs, shares of their sum, operations of merged launches."""

from __future__ import annotations

from types import SimpleNamespace

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage, Strategy
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.report.operator_table import flops_of_launches, operator_table, operator_times
from tvm_ios.search.baselines import make_schedule


def plan(*launches):
    """The parts of a plan that are read."""
    return SimpleNamespace(
        launches=[SimpleNamespace(operator=name, call=call) for name, call in launches],
    )


def event(operator, ns, *, lane=0):
    return TraceEvent(operator=operator, stage=1, group=0, lane=lane, start_ns=10, end_ns=10 + ns)


def test_rows_are_medians_over_runs():
    onednn = SimpleNamespace(library=SimpleNamespace(title="oneDNN"))
    traces = [
        [event("a", 1000), event("b", 2000, lane=1)],
        [event("a", 3000), event("b", 6000, lane=1)],
        [event("a", 2000), event("b", 6000)],
    ]
    times = operator_times(plan(("a", None), ("b", onednn)), traces, {"b": 12_000})
    assert [each.operator for each in times] == ["b", "a"]
    b, a = times
    assert (b.time_us, b.share, b.gflops, b.lane, b.computed_by) == (6.0, 0.75, 2.0, 1, "oneDNN")
    assert (a.time_us, a.share, a.gflops, a.computed_by) == (2.0, 0.25, None, "TVM kernel")
    assert operator_table(times).as_text().splitlines()[2].split() == [
        "b", "1", "1", "6.0", "75.0%", "2.00", "oneDNN",
    ]  # fmt: skip


def test_a_merged_launch_has_the_operations_of_its_stage_and_copies_of_it_have_none():
    graph = OperatorGraph("net", (op("a", flops=5), op("b", flops=7), op("c", flops=1)))
    merged = Stage(((0,), (1,)), Strategy.MERGE)
    schedule = make_schedule(graph, (merged, Stage(((2,),))), "test")
    flops = flops_of_launches(graph, schedule)
    assert flops == {"a": 5, "b": 7, "a+b": 12, "c": 1}
    (copied,) = operator_times(plan(("a.slice", None)), [[event("a.slice", 1000)]], flops)
    assert copied.gflops is None
