"""Chrome trace JSON of a traced run, which Perfetto (ui.perfetto.dev) opens: a track a lane.

The format is the Trace Event Format: ``X`` events hold a start and a duration in microseconds,
``M`` events name processes and threads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tvm_ios.plan.trace import TraceEvent

__all__ = ["chrome_trace", "write_chrome_trace"]

_PROCESS = 0


def chrome_trace(events: Iterable[TraceEvent], *, name: str) -> str:
    """JSON text of the events of one run, in any order; ``name`` is shown above the tracks."""
    ordered = sorted(events, key=lambda event: (event.lane, event.start_ns))
    lanes = sorted({event.lane for event in ordered})
    rows = [_metadata("process_name", {"name": name})]
    for lane in lanes:
        rows.append(_metadata("thread_name", {"name": f"lane {lane}"}, lane=lane))
        rows.append(_metadata("thread_sort_index", {"sort_index": lane}, lane=lane))
    rows.extend(_slice(event) for event in ordered)
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": rows}, indent=0)


def write_chrome_trace(events: Iterable[TraceEvent], path: Path | str, *, name: str) -> None:
    """Write a trace to a file, which Perfetto opens."""
    Path(path).write_text(chrome_trace(events, name=name) + "\n")


def _metadata(kind: str, args: dict[str, Any], *, lane: int = 0) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": _PROCESS, "tid": lane, "args": args}


def _slice(event: TraceEvent) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": event.operator,
        "cat": f"stage {event.stage}",
        "pid": _PROCESS,
        "tid": event.lane,
        "ts": event.start_ns / 1000,
        "dur": (event.end_ns - event.start_ns) / 1000,
        "args": {"stage": event.stage, "group": event.group},
    }
