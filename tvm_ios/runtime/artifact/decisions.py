"""Decisions of a tuning as a file that travels: to a colleague, another machine, another TVM.

They say who computes each operator, the layouts, and the schedule. ``tune`` races them and believes
none of their times. No TVM here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.image_layouts import CHANNELS_LAST
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.core.transfer import transferred
from tvm_ios.core.verify import verify_schedule
from tvm_ios.errors import GraphError, ScheduleError
from tvm_ios.support.json_nouns import noun_from, noun_record
from tvm_ios.support.stored_value import StoredValue, UnreadableValueError, parse_json

__all__ = ["Decisions", "Origin"]

DECISIONS_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Place where decisions were made, and how they did there."""

    kept: str = ""
    """Contestant that won there; empty where nothing was raced."""
    latency_ns: int | None = None
    """Median nanoseconds of a run; None where nothing was timed."""
    target: str
    lanes: int
    machine: Mapping[str, str]
    """Facts of the machine."""
    versions: Mapping[str, str]
    """Versions of the software."""

    def as_text(self) -> str:
        """Line on processor, lanes and latency."""
        took = "" if self.latency_ns is None else f", {self.latency_ns / 1e6:.4f} ms a run"
        processor = self.machine.get("processor", "another machine")
        return f"made on {processor}, lanes: {self.lanes}{took}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Schedule of a model, with all that it takes to find its operators again elsewhere."""

    schedule: InterOpSchedule
    """Stages or lists, operators of each operator library, and the form of images."""
    graph: OperatorGraph | None = None
    """Operators that were scheduled; None for a schedule alone, which fits equal graphs only."""
    origin: Origin | None = None
    """Place where they were made; None for a schedule alone."""

    def on(self, graph: OperatorGraph) -> InterOpSchedule | None:
        """The schedule for a graph of equal structure; None where the structures differ.

        Its predicted latency is left out, being of another machine. Merges may be illegal here.
        """
        found: InterOpSchedule | None = self.schedule
        if self.schedule.graph_fingerprint != graph.fingerprint():
            found = None
            if self.graph is not None:
                found = transferred(self.schedule, self.graph, graph)
        return None if found is None else replace(found, graph_name=graph.name, latency_ns=None)

    def to_json(self) -> str:
        """Versioned JSON of the decisions; :meth:`from_json` reads it back."""
        data = {
            "decisions": DECISIONS_VERSION,
            "origin": noun_record(Origin, self.origin),
            "schedule": json.loads(self.schedule.to_json()),
            "graph": noun_record(OperatorGraph, self.graph),
        }
        return json.dumps(data, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Decisions in the JSON of :meth:`to_json`, or of a schedule alone.

        Raises
        ------
        ScheduleError
            If the text is neither, of another version, or breaks a rule of schedules.
        """
        try:
            data = parse_json(text, "the file")
            if data.optional_field("decisions") is not None:
                return cls._of(data.only("decisions", "origin", "schedule", "graph"))
        except (UnreadableValueError, GraphError) as error:
            raise ScheduleError(
                f"no decisions: {error}; write them again with tvm-ios decisions export"
            ) from error
        return cls(schedule=InterOpSchedule.from_json(text))

    @classmethod
    def _of(cls, data: StoredValue) -> Self:
        version = data.field("decisions").whole()
        if version != DECISIONS_VERSION:
            raise ScheduleError(
                f"decisions have version {version}, this tvm-ios reads version "
                f"{DECISIONS_VERSION}; export them again with the installed version"
            )
        schedule = InterOpSchedule.from_json(json.dumps(data.field("schedule").value))
        graph = noun_from(OperatorGraph, data.field("graph"))
        verify_schedule(schedule, graph)
        return cls(schedule=schedule, graph=graph, origin=noun_from(Origin, data.field("origin")))

    def as_text(self) -> str:
        """Text: origin, makers, layouts, then the schedule as it prints itself."""
        schedule, origin = self.schedule, self.origin
        if origin is None:
            return schedule.as_text()
        versions = ", ".join(f"{name} {value}" for name, value in origin.versions.items())
        kept = f"kept {origin.kept}" if origin.kept else "the schedule was given there"
        made = {row.library: len(row.operators) for row in schedule.libraries or ()}
        made["TVM's kernels"] = len(schedule.operator_names) - sum(made.values())
        lines = [
            f"{kept}; {origin.as_text()}",
            f"for {origin.target}; {versions}",
            "operators by maker: " + ", ".join(f"{who} {count}" for who, count in made.items()),
        ]
        if schedule.form is not None:
            last = schedule.form.layouts.count(CHANNELS_LAST)
            blocks = len(schedule.form.layouts) - last
            lines.append(f"convolutions: {last} with channels last, {blocks} in blocks of channels")
        return "\n".join([*lines, schedule.as_text()])
