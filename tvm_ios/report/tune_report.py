"""Report of one call of ``tune``, as immutable data for people and benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tvm_ios.core.merge_rule import count_padded_kernels
from tvm_ios.measure.comparison import Comparison
from tvm_ios.measure.part_times import PartTimes
from tvm_ios.report.bottleneck import bottleneck
from tvm_ios.report.contestants import Contestant
from tvm_ios.report.html.report_page import ReportPage
from tvm_ios.report.records_in_force import RecordsInForce
from tvm_ios.report.result_box import form_line, result_box
from tvm_ios.runtime.artifact.evidence import Evidence
from tvm_ios.runtime.artifact.story import ModelStory
from tvm_ios.search.result import SearchResult
from tvm_ios.support.json_nouns import noun_record

__all__ = ["Contestant", "TuneReport"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneReport:
    """Facts of one tuning."""

    story: ModelStory
    """Story of the kept model: graph, schedule, and the measurements of :attr:`evidence`."""
    search: SearchResult
    """Search of the IOS schedule."""
    measured: int
    """Number of distinct workloads measured, operators with and without help counted apart."""
    from_database: int
    """Number of distinct workloads whose price was in the profile database."""
    coverage: str
    """Scheduled share of the model, and operators left in place, in words."""
    arena_bytes: int
    """Bytes of memory planned for activations."""
    sequential_arena_bytes: int
    """Bytes that sequential order plans for them."""
    notes: tuple[str, ...]
    remembered: str = ""
    """Line on what came from the profile database, from which days, and what was measured."""
    tuning: str = ""
    """Task table of kernel tuning; empty without tuning."""
    records: RecordsInForce | None = None
    """Tuning records of the scheduled kernels; None where nobody gave any."""
    given: tuple[str, ...] = ()
    """Lines on what became of decisions that were given, one for each file."""

    @property
    def evidence(self) -> Evidence:
        """Measurements of the kept model and its rivals."""
        assert self.story.evidence is not None, "only tune makes reports, and it measures"
        return self.story.evidence

    @property
    def kept(self) -> Contestant:
        """Contestant whose schedule was kept; sequential order where nothing beat it."""
        return Contestant(self.evidence.kept)

    @property
    def reason(self) -> str:
        """Sentence for people that says why this schedule was kept."""
        return self.evidence.reason

    @property
    def comparison(self) -> Comparison:
        """Race of all schedules on our runtime, with raw rounds."""
        return self.evidence.race

    @property
    def phase_s(self) -> Mapping[str, float]:
        """Seconds by phase, in order."""
        return self.evidence.phase_s

    def counts(self) -> dict[str, int]:
        """Numbers of operators, of stages of the kept schedule, and of the search, by name."""
        schedule, operators = self.story.schedule, self.story.graph.operators
        wide = [stage for stage in schedule.stages if len(stage.groups) > 1]
        merged = [stage for stage in wide if stage.is_merge]
        padded = [
            count_padded_kernels([operators[index].convolution for index in stage.operators])
            for stage in merged
        ]
        return {
            "operators": len(operators),
            "stages": len(schedule.stages),
            "list_lanes": schedule.num_home_lanes,
            "concurrent_stages": len(wide) - len(merged),
            "merged_stages": len(merged),
            "padded_merged_stages": sum(count > 0 for count in padded),
            "padded_kernels": sum(padded),
            "blocks": len(self.search.blocks),
            "states": self.search.states,
            "transitions": self.search.transitions,
            "stages_possible": self.search.distinct_stages,
            "stages_priced": self.search.priced,
            "measured": self.measured,
            "from_database": self.from_database,
            "predicted_ns": self.search.latency_ns,
            "predicted_sequential_ns": self.search.sequential_ns,
        }

    def summary(self) -> str:
        """The result on a few lines, with the latency and the interval that holds its median."""
        seconds = sum(self.phase_s.values())
        notes = len(self.notes)
        more = f"; the full report has {notes} note{'s' * (notes > 1)}" if notes else ""
        barriers = sum(not operator.schedulable for operator in self.story.graph.operators)
        lines = [
            *result_box(self.story),
            *self.given,
            *([self.coverage.partition("\n")[0]] if barriers else []),
            *([] if self.records is None else [self.records.as_text()]),
            *([self.remembered] if self.remembered else []),
            f"took {seconds:.0f} s{more}",
        ]
        return "\n".join(lines)

    def as_text(self) -> str:
        """Report as a page of text."""
        phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.phase_s.items())
        medians = ", ".join(
            f"{name} {self.comparison.median_ns(name) / 1e6:.4f} ms"
            for name in self.comparison.names
        )
        found = self.search
        lines = [
            *([self.tuning] if self.tuning else []),
            *self._result(),
            *self._padding(),
            f"search: {len(found.blocks)} blocks, {found.states} states, {found.transitions} "
            f"transitions; {found.priced} of {found.distinct_stages} possible stages priced "
            f"({self.measured} workloads measured, {self.from_database} in the profile database)",
            f"predicted ios {found.latency_ns / 1e6:.4f} ms, sequential "
            f"{found.sequential_ns / 1e6:.4f} ms; measured {medians}",
            f"memory of activations {self.arena_bytes / 1e6:.2f} MB, in sequential order "
            f"{self.sequential_arena_bytes / 1e6:.2f} MB",
            f"time: {phases}",
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def schedules_text(self) -> str:
        """Text of the kept schedule."""
        return self.story.schedule.as_text()

    def _result(self) -> tuple[str, ...]:
        """Lines on the kept schedule: its reason, kernels and stages."""
        slowest, precision = bottleneck(self.story), self.story.precision
        return (
            f"kept {self.kept.value}: {self.reason}",
            *(() if self.evidence.parts is None else self.evidence.parts.lines()),
            *self.given,
            *([self.story.quantised] if self.story.quantised else []),
            *(() if precision is None else (precision.as_text(), *precision.details())),
            *([self.story.rest] if self.story.rest else []),
            *([self.remembered] if self.remembered else []),
            *([f"bottleneck: {slowest}"] if slowest else []),
            *([f"ceiling: {self.story.ceiling}"] if self.story.ceiling else []),
            self.coverage,
            *([] if self.records is None else [self.records.as_text()]),
            form_line(self.story.graph, self.story.schedule),
        )

    def _padding(self) -> tuple[str, ...]:
        """Line on the effect of padded merged kernels on inf and NaN; empty without them."""
        counts = self.counts()
        if not counts["padded_kernels"]:
            return ()
        return (
            f"merged stages that pad kernels with zeros: {counts['padded_merged_stages']}, padded "
            f"convolutions in them: {counts['padded_kernels']}; around an inf or NaN of their "
            "input they give NaN, which a ReLU may make 0 (pad_merged_kernels=False merges equal "
            "kernels only)",
        )

    def page(self, *, title: str = "", command: str = "") -> ReportPage:
        """Report as an HTML page, with pictures of the schedule and of a run.

        Title and command are those of :class:`~tvm_ios.report.html.report_page.ReportPage`.
        """
        story = replace(self.story, report=self.as_text())
        return ReportPage(story=story, title=title, command=command)

    def pages(self, *, title: str = "", command: str = "") -> dict[str, ReportPage]:
        """The :meth:`page`, under an empty name: it is of no shape in particular."""
        return {"": self.page(title=title, command=command)}

    def to_html(self, *, title: str = "", command: str = "") -> str:
        """Text of :meth:`page`, an HTML page in one file."""
        return self.page(title=title, command=command).to_html()

    def to_json(self) -> str:
        """Report as JSON with raw rounds; of the story only facts that stand nowhere else."""
        data = {
            "kept": self.kept.value,
            "outcome": self.evidence.outcome.value if self.evidence.outcome else None,
            "reason": self.reason,
            "parts": noun_record(PartTimes, self.evidence.parts),
            "ceiling": self.story.ceiling,
            "bottleneck": bottleneck(self.story),
            "coverage": self.coverage,
            **self.counts(),
            "comparison": self.comparison.as_record(),
            "arena_bytes": self.arena_bytes,
            "sequential_arena_bytes": self.sequential_arena_bytes,
            "phase_s": dict(self.phase_s),
            "notes": self.notes,
            "given": self.given,
            "rest": self.story.rest,
            "quantised": self.story.quantised,
            "remembered": self.remembered,
            "tuning": self.tuning,
            "records": None if self.records is None else self.records.as_record(),
            "story": self.story.as_record(),
        }
        return json.dumps(data, indent=1)
