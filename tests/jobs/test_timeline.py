"""The timeline that Perfetto opens: a row for each core, each device, and each job that waits."""

from __future__ import annotations

import json

from tvm_ios.jobs.core.resources import Device, DeviceKind, Machine
from tvm_ios.jobs.core.trace import Span
from tvm_ios.jobs.timeline import timeline_json
from tvm_ios.support.stage_gate import StageKind, StageNeed

MACHINE = Machine(cores=(0, 1, 2), devices=(Device(name="cpu0", kind=DeviceKind.CORE, core=1),))
BUILD = Span(
    job="a",
    epoch=1,
    need=StageNeed(kind=StageKind.BUILD, task="conv", most_cores=2),
    device="",
    asked_s=100.0,
    granted_s=100.0,
    ended_s=104.0,
    places=((100.0, (0, 1)), (101.0, (0,))),
)
PROFILE = Span(
    job="b",
    epoch=2,
    need=StageNeed(kind=StageKind.PROFILE),
    device="cpu0",
    asked_s=100.5,
    granted_s=101.0,
    places=((101.0, (1,)),),
)


def rows(text):
    """Slices by their row: begin and length in seconds, and name."""
    events = json.loads(text)["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"
    }
    found = {f"{processes[pid]}/{name}": [] for (pid, _), name in threads.items()}
    for e in events:
        if e["ph"] == "X":
            row = f"{processes[e['pid']]}/{threads[e['pid'], e['tid']]}"
            found[row].append((e["ts"] / 1e6, e["dur"] / 1e6, e["name"]))
    return found


def test_each_core_and_device_has_a_row():
    assert rows(timeline_json(MACHINE, [BUILD, PROFILE], now_s=105.0)) == {
        "cores/core 0": [(0.0, 1.0, "a: build conv"), (1.0, 3.0, "a: build conv")],
        "cores/core 1": [(0.0, 1.0, "a: build conv"), (1.0, 4.0, "b: profile")],
        "cores/core 2": [],
        "devices/cpu0": [(1.0, 4.0, "b: profile")],
        "jobs that wait/a": [],
        "jobs that wait/b": [(0.5, 0.5, "b: profile")],
    }


def test_without_a_machine_there_is_what_was_used():
    assert list(rows(timeline_json(None, [BUILD], now_s=105.0))) == [
        "cores/core 0",
        "cores/core 1",
        "jobs that wait/a",
    ]
