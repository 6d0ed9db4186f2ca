"""The story of an exported model: what was scheduled, why, where and with what. No TVM here.

The story lies in the file's footer, so that anybody can read it without running the file.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.parts import Part
from tvm_ios.core.precision.precision_outcome import PrecisionOutcome
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.errors import ArtifactError, GraphError, ScheduleError
from tvm_ios.runtime.artifact.evidence import Evidence, TracedRuns
from tvm_ios.support.json_nouns import noun_from, noun_record, to_json
from tvm_ios.support.stored_value import UnreadableValueError, parse_json

__all__ = ["ModelStory"]

MOST_BYTES = 64 << 20
"""Most bytes of an unpacked story: a hundred times those of a network of a thousand operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStory:
    """Facts about an exported model: operators, schedule, report, machine, versions, times."""

    graph: OperatorGraph
    """The operators that were scheduled."""
    schedule_json: str
    """JSON of :meth:`~tvm_ios.core.schedule.InterOpSchedule.to_json`."""
    report: str
    """Report of ``tune``; empty where the schedule was given."""
    machine: Mapping[str, str]
    """Facts of the machine that compiled it."""
    versions: Mapping[str, str]
    """Versions of the software that compiled the model."""
    evidence: Evidence | None = None
    """Measurements of ``tune``; None where the schedule was given, and in older files."""
    rest: str = ""
    """Line on the nodes that onnxruntime runs, of which nothing was scheduled; mostly empty."""
    ceiling: str = ""
    """Line on what scheduling could gain at most, known before anything was compiled; empty where
    the schedule was given."""
    quantised: str = ""
    """Line on the products of a quantised model that are computed in int8; empty for others."""
    parts: tuple[Part, ...] = ()
    """Models that the network was joined from; none for a single one."""
    shape: str = ""
    """Shape that this is the story of, where the file has a model in several; else empty."""
    others: tuple[ModelStory, ...] = ()
    """Stories of the other shapes."""
    precision: PrecisionOutcome | None = None
    """Outcome of a wish for bfloat16, or what that promises; None where nothing is to be told."""

    @property
    def schedule(self) -> InterOpSchedule:
        """The schedule that was compiled."""
        return InterOpSchedule.from_json(self.schedule_json)

    def as_record(self) -> dict[str, Any]:
        """Plain data for JSON: the schedule, where and with what it was made, and its times.

        The graph, the report and the race are left out; callers have them elsewhere.
        """
        evidence = self.evidence
        return {
            "schedule": json.loads(self.schedule_json),
            "precision": noun_record(PrecisionOutcome, self.precision),
            "machine": dict(self.machine),
            "versions": dict(self.versions),
            "prices_ns": [] if evidence is None else list(evidence.prices_ns),
            "traced": None if evidence is None else noun_record(TracedRuns, evidence.traced),
            "curve": [] if evidence is None else noun_record(Any, evidence.curve),
        }

    def to_bytes(self) -> bytes:
        """Compressed bytes of the story; :meth:`from_bytes` reads them back."""
        return zlib.compress(to_json(ModelStory, self).encode())

    @classmethod
    def from_bytes(cls, packed: bytes) -> Self:
        """Story in the bytes of :meth:`to_bytes`."""
        try:
            text = _unpacked(packed).decode()
            # Not as a whole: older files have no evidence, and the footer's digest tells of damage.
            story = noun_from(cls, parse_json(text, "the story"))
            story.schedule.require_graph(story.graph)
        except (
            zlib.error,
            UnicodeDecodeError,
            UnreadableValueError,
            GraphError,
            ScheduleError,
        ) as error:
            raise ArtifactError(
                f"what the file tells of its model cannot be read: {error}; export it again"
            ) from error
        return story


def _unpacked(packed: bytes) -> bytes:
    """The bytes of a packed story; a small file may claim to hold more than there is memory."""
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(packed, MOST_BYTES)
    if not unpacker.eof:
        what = f"has more than {MOST_BYTES >> 20} MiB" if len(text) == MOST_BYTES else "is cut off"
        raise UnreadableValueError(f"its packed text {what}")
    return text
