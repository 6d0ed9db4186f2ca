"""Reads what the stand-in for CUDA recorded, and says which work is ordered before which.

Knows nothing of plans or of how events were chosen: the order comes from the calls alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

CUDNN = ("cudnnConvolutionForward", "cudnnConvolutionBiasActivationForward", "cudnnAddTensor")
KERNELS = ("cuLaunchKernel", *CUDNN)
WORK = (*KERNELS, "cudaMemcpyAsync", "cuGraphLaunch", "work")


@dataclass(frozen=True)
class Call:
    """One recorded line."""

    name: str
    fields: dict[str, str]

    @property
    def stream(self):
        return int(self.fields["stream"])

    @property
    def event(self):
        return int(self.fields["event"])

    @property
    def pointers(self):
        return [int(each, 16) for each in self.fields.get("arguments", "").split(",") if each]


def read_record(path: Path) -> list[Call]:
    """All calls so far, marks included."""
    calls = []
    for line in path.read_text(encoding="utf-8").splitlines():
        name, *fields = line.split()
        calls.append(Call(name, dict(field.split("=", 1) for field in fields)))
    return calls


def after_mark(calls: Sequence[Call], text: str) -> list[Call]:
    """The calls between the last mark of this text and the next mark of any."""
    begin = max(n for n, c in enumerate(calls) if c.name == "mark" and c.fields["text"] == text)
    rest = calls[begin + 1 :]
    end = next((n for n, call in enumerate(rest) if call.name == "mark"), len(rest))
    return list(rest[:end])


def captured(calls: Sequence[Call]) -> list[list[Call]]:
    """The calls of each capture, its begin and end left out."""
    sections, current = [], None
    for call in calls:
        if call.name == "cuStreamBeginCapture_v2":
            current = []
        elif call.name == "cuStreamEndCapture":
            sections.append(current)
            current = None
        elif current is not None:
            current.append(call)
    return sections


def between_works(calls: Sequence[Call], stream: int) -> list[Call]:
    """The calls with work on a stream before and after, to see that they fork and join."""
    work = Call("work", {"stream": str(stream)})
    return [work, *calls, work]


def works_before(calls: Iterable[Call]) -> list[int]:
    """For each piece of work, in the order issued, those complete before it starts: a bit mask."""
    streams: dict[int, int] = {}
    events: dict[int, int] = {}
    before: list[int] = []
    for call in calls:
        if call.name in WORK:
            before.append(streams.get(call.stream, 0))
            streams[call.stream] = before[-1] | 1 << len(before) - 1
        elif call.name == "cuEventRecord":
            events[call.event] = streams.get(call.stream, 0)
        elif call.name == "cuStreamWaitEvent":
            # An event that was never recorded orders nothing.
            streams[call.stream] = streams.get(call.stream, 0) | events.get(call.event, 0)
    return before


def needless_waits(calls: Sequence[Call], needed: Sequence[int]) -> list[Call]:
    """Waits without which every piece of work still comes after all that it needs."""
    return [
        call
        for number, call in enumerate(calls)
        if call.name == "cuStreamWaitEvent"
        and _covers(works_before([*calls[:number], *calls[number + 1 :]]), needed)
    ]


def _covers(before: Sequence[int], needed: Sequence[int]) -> bool:
    return all(not want & ~have for have, want in zip(before, needed, strict=True))
