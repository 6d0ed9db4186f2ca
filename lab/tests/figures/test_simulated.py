from __future__ import annotations

import json

from tvm_ios_lab.analytical.timeline import SimulatedOperator, SimulatedRun
from tvm_ios_lab.figures.simulated import simulated_trace, write_simulated_trace

RUN = SimulatedRun(
    graph_name="net",
    scheduler="ios",
    priced_by="analytical model of a GPU",
    stage_ns=(5000, 4000),
    operators=(
        SimulatedOperator(members=("stem",), stage=0, group=0, start_ns=1000, end_ns=5000),
        SimulatedOperator(members=("a",), stage=1, group=0, start_ns=6000, end_ns=7000),
        SimulatedOperator(members=("b",), stage=1, group=1, start_ns=6000, end_ns=8500),
    ),
)


def events_of(text: str, phase: str) -> list[dict]:
    return [event for event in json.loads(text)["traceEvents"] if event["ph"] == phase]


def test_runs_follow_each_other_and_say_that_they_are_simulated():
    text = simulated_trace([RUN, RUN], name="network")
    (process,) = [e for e in events_of(text, "M") if e["name"] == "process_name"]
    assert process["args"] == {
        "name": "network, simulated by the analytical model of a GPU",
    }
    assert [(e["name"], e["tid"], e["ts"], e["args"]) for e in events_of(text, "X")] == [
        ("stem", 0, 1.0, {"stage": 0, "group": 0}),
        ("a", 0, 6.0, {"stage": 1, "group": 0}),
        ("stem", 0, 10.0, {"stage": 2, "group": 0}),
        ("a", 0, 15.0, {"stage": 3, "group": 0}),
        ("b", 1, 6.0, {"stage": 1, "group": 1}),
        ("b", 1, 15.0, {"stage": 3, "group": 1}),
    ]


def test_the_file_holds_the_trace(tmp_path):
    path = tmp_path / "trace.json"
    write_simulated_trace([RUN], path, name="network")
    assert path.read_text() == simulated_trace([RUN], name="network") + "\n"
    assert events_of(simulated_trace([], name="nothing"), "X") == []
