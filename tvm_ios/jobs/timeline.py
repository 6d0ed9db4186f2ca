"""The rows of a timeline of jobs, and their stages as Chrome trace JSON, which Perfetto opens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_ios.jobs.core.resources import Machine
from tvm_ios.jobs.core.trace import Span

__all__ = ["TimelineRows", "timeline_json"]

_CORES, _DEVICES, _WAITING = range(3)
_PROCESSES = {_CORES: "cores", _DEVICES: "devices", _WAITING: "jobs that wait"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRows:
    """Rows of a timeline: cores, devices and jobs, from above."""

    begin_s: float
    """Time at which the first stage was asked for; times count from there."""
    cores: tuple[int, ...]
    devices: tuple[str, ...]
    jobs: tuple[str, ...]

    @classmethod
    def of(cls, machine: Machine | None, spans: Sequence[Span]) -> TimelineRows:
        """The rows of these stages, and of a machine's cores and devices where nothing ran.

        None: nobody knows the machine any more.
        """
        known = [device.name for device in machine.devices] if machine is not None else []
        used = {core for span in spans for _, cores in span.places for core in cores}
        return cls(
            begin_s=min((span.asked_s for span in spans), default=0.0),
            cores=tuple(sorted(used.union(machine.cores if machine is not None else ()))),
            devices=tuple(dict.fromkeys([*known, *(span.device for span in spans if span.device)])),
            jobs=tuple(dict.fromkeys(span.job for span in spans)),
        )


def timeline_json(machine: Machine | None, spans: Sequence[Span], *, now_s: float) -> str:
    """The JSON text: who had each core and each device when, and how long each job had waited.

    What computes still ends at ``now_s`` in the picture. The machine is as for
    :meth:`TimelineRows.of`.
    """
    drawn = TimelineRows.of(machine, spans)
    begin_s, devices, jobs = drawn.begin_s, drawn.devices, drawn.jobs
    rows = [
        *_names(_CORES, drawn.cores, [f"core {core}" for core in drawn.cores]),
        *_names(_DEVICES, range(len(devices)), devices),
        *_names(_WAITING, range(len(jobs)), jobs),
    ]
    for span in spans:
        for stay in span.stays(now_s):
            seconds = stay.until_s - stay.since_s
            rows.append(_slice(span, _CORES, stay.core, stay.since_s - begin_s, seconds))
        granted_s = span.granted_s - begin_s
        if span.device:
            device = devices.index(span.device)
            rows.append(
                _slice(span, _DEVICES, device, granted_s, span.end_s(now_s) - span.granted_s)
            )
        if span.waited_s > 0:
            asked_s = span.asked_s - begin_s
            rows.append(_slice(span, _WAITING, jobs.index(span.job), asked_s, span.waited_s))
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": rows}, indent=0)


def _names(process: int, rows: Iterable[int], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": _PROCESSES[process]}}
    for row, name in zip(rows, names, strict=True):
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": row, "args": {"name": name}}


def _slice(span: Span, process: int, row: int, since_s: float, seconds: float) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": f"{span.job}: {span.need.kind.value} {span.need.task}".strip(),
        "cat": span.need.kind.value,
        "pid": process,
        "tid": row,
        "ts": since_s * 1e6,
        "dur": seconds * 1e6,
        "args": {"job": span.job, "waited_s": span.waited_s, "finished": span.finished},
    }
