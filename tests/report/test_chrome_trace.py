from __future__ import annotations

import json

from tvm_ios.plan.trace import TraceEvent
from tvm_ios.report.chrome_trace import chrome_trace, write_chrome_trace

EVENTS = [
    TraceEvent(operator="add", stage=1, group=0, lane=1, start_ns=2500, end_ns=4000),
    TraceEvent(operator="conv", stage=0, group=0, lane=0, start_ns=0, end_ns=2000),
    TraceEvent(operator="pool", stage=0, group=1, lane=1, start_ns=100, end_ns=900),
]


def events_of(phase: str) -> list[dict]:
    trace = json.loads(chrome_trace(EVENTS, name="squeezenet"))
    return [event for event in trace["traceEvents"] if event["ph"] == phase]


def test_every_lane_is_a_named_track_in_order():
    names = {e["tid"]: e["args"]["name"] for e in events_of("M") if e["name"] == "thread_name"}
    assert names == {0: "lane 0", 1: "lane 1"}
    order = {
        e["tid"]: e["args"]["sort_index"]
        for e in events_of("M")
        if e["name"] == "thread_sort_index"
    }
    assert order == {0: 0, 1: 1}
    process = [e["args"] for e in events_of("M") if e["name"] == "process_name"]
    assert process == [{"name": "squeezenet"}]


def test_slices_hold_microseconds_and_say_stage_and_group():
    slices = events_of("X")
    assert [(e["name"], e["tid"], e["ts"], e["dur"]) for e in slices] == [
        ("conv", 0, 0.0, 2.0),
        ("pool", 1, 0.1, 0.8),
        ("add", 1, 2.5, 1.5),
    ]
    assert slices[1]["args"] == {"stage": 0, "group": 1}


def test_every_event_has_what_the_format_requires():
    for event in [*events_of("M"), *events_of("X")]:
        assert {"ph", "name", "pid", "tid", "args"} <= event.keys()


def test_a_run_without_events_is_still_a_trace():
    assert json.loads(chrome_trace([], name="empty"))["traceEvents"][0]["name"] == "process_name"


def test_the_file_holds_the_same_json(tmp_path):
    write_chrome_trace(EVENTS, tmp_path / "trace.json", name="squeezenet")
    text = (tmp_path / "trace.json").read_text()
    assert json.loads(text) == json.loads(chrome_trace(EVENTS, name="squeezenet"))
