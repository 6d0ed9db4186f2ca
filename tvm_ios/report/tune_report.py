"""Report of one call of ``tune``, as immutable data for people and benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from tvm_ios.core.merge_rule import count_padded_kernels
from tvm_ios.cost.measured import MeasureCounters
from tvm_ios.errors import OptionError
from tvm_ios.measure.comparison import Comparison
from tvm_ios.report.html.report_page import ReportPage
from tvm_ios.report.records_in_force import RecordsInForce
from tvm_ios.runtime.artifact.story import ModelStory
from tvm_ios.search.result import SearchResult

__all__ = ["Contestant", "TuneReport"]


class Contestant(Enum):
    """Contestant of the race that ends a tuning."""

    SEQUENTIAL = "sequential"
    GREEDY = "greedy"
    IOS = "ios"
    IOS_LIST = "ios + list"
    """List made from the IOS schedule: no stages, operators on lanes."""
    OWN_KERNELS = "sequential, TVM's kernels"
    """Sequential order without operator libraries; races where libraries compute operators."""
    UNTUNED_GREEDY = "greedy, untuned kernels"
    """Greedy schedule that the call would have found without tuned kernels."""
    UNTUNED_IOS = "ios, untuned kernels"
    UNTUNED_IOS_LIST = "ios + list, untuned kernels"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneReport:
    """Facts of one tuning."""

    kept: Contestant
    """Contestant whose schedule was kept; sequential order where nothing beat it."""
    reason: str
    coverage: str
    """Scheduled share of the model, and operators left in place, in words."""
    operators: int
    stages: int
    """Stages of the kept schedule."""
    concurrent_stages: int
    """Number of stages with more than one group."""
    merged_stages: int
    padded_merged_stages: int
    """Number of merged stages with kernels of different sizes."""
    padded_kernels: int
    """Number of convolutions in them whose kernels are padded with zeros."""
    blocks: int
    states: int
    transitions: int
    stages_possible: int
    stages_priced: int
    """Number of distinct stages whose price the search asked for."""
    measured: int
    """Number of distinct workloads measured, operators with and without help counted apart."""
    from_database: int
    """Number of distinct workloads whose price was in the profile database."""
    predicted_ns: int
    """Sum of the prices of the IOS schedule, in nanoseconds."""
    predicted_sequential_ns: int
    comparison: Comparison
    """Race of all schedules on our runtime, with raw rounds."""
    arena_bytes: int
    """Bytes of memory planned for activations."""
    phase_s: Mapping[str, float]
    """Seconds by phase, in order."""
    notes: tuple[str, ...]
    list_lanes: int = 0
    """Number of lanes of the kept schedule, if it is a list."""
    remembered: str = ""
    """Line on what came from the profile database, from which days, and what was measured."""
    tuning: str = ""
    """Task table of kernel tuning; empty without tuning."""
    records: RecordsInForce | None = None
    """Tuning records of the scheduled kernels; None where nobody gave any."""
    story: ModelStory | None = None
    """Story of the kept model with its measurements, for :meth:`to_html`."""

    @classmethod
    def of(
        cls,
        *,
        kept: Contestant,
        reason: str,
        story: ModelStory,
        arena_bytes: int,
        records: RecordsInForce | None,
        coverage: str,
        counters: MeasureCounters,
        search: SearchResult,
        comparison: Comparison,
        phase_s: Mapping[str, float],
        notes: tuple[str, ...],
        remembered: str = "",
        tuning: str = "",
    ) -> TuneReport:
        """Report of a tuning that kept the model of ``story``."""
        schedule = story.schedule
        wide = [stage for stage in schedule.stages if len(stage.groups) > 1]
        merged = [stage for stage in wide if stage.is_merge]
        operators = story.graph.operators
        padded = [
            count_padded_kernels([operators[index].convolution for index in stage.operators])
            for stage in merged
        ]
        report = cls(
            kept=kept,
            reason=reason,
            coverage=coverage,
            operators=len(story.graph),
            stages=len(schedule.stages),
            concurrent_stages=len(wide) - len(merged),
            merged_stages=len(merged),
            padded_merged_stages=sum(count > 0 for count in padded),
            padded_kernels=sum(padded),
            blocks=len(search.blocks),
            states=search.states,
            transitions=search.transitions,
            stages_possible=search.distinct_stages,
            stages_priced=search.priced,
            measured=counters.priced,
            from_database=counters.from_database,
            predicted_ns=search.latency_ns,
            predicted_sequential_ns=search.sequential_ns,
            comparison=comparison,
            arena_bytes=arena_bytes,
            phase_s=dict(phase_s),
            notes=notes,
            list_lanes=schedule.num_home_lanes,
            remembered=remembered,
            tuning=tuning,
            records=records,
        )
        return replace(report, story=replace(story, report=report.as_text()))

    def summary(self) -> str:
        """The result on a few lines, with the latency and the interval that holds its median."""
        name = self.kept.value
        low, high = (ns / 1e6 for ns in self.comparison.interval_ns(name))
        seconds = sum(self.phase_s.values())
        notes = len(self.notes)
        more = f"; the full report has {notes} note{'s' * (notes > 1)}" if notes else ""
        lines = [
            *self._result(),
            f"latency {self.comparison.median_ns(name) / 1e6:.4f} ms ({low:.4f} to {high:.4f})",
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
        lines = [
            *([self.tuning] if self.tuning else []),
            *self._result(),
            *self._padding(),
            f"search: {self.blocks} blocks, {self.states} states, {self.transitions} transitions; "
            f"{self.stages_priced} of {self.stages_possible} possible stages priced "
            f"({self.measured} workloads measured, {self.from_database} in the profile database)",
            f"predicted ios {self.predicted_ns / 1e6:.4f} ms, sequential "
            f"{self.predicted_sequential_ns / 1e6:.4f} ms; measured {medians}",
            f"memory of activations {self.arena_bytes / 1e6:.2f} MB",
            f"time: {phases}",
        ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def _result(self) -> tuple[str, ...]:
        """Lines on the kept schedule: its reason, kernels and stages."""
        return (
            f"kept {self.kept.value}: {self.reason}",
            *([self.remembered] if self.remembered else []),
            self.coverage,
            *([] if self.records is None else [self.records.as_text()]),
            f"{self.operators} operators {self._form()}, {self.merged_stages} merged",
        )

    def _form(self) -> str:
        if self.list_lanes:
            return f"as a list on {self.list_lanes} lanes"
        return f"in {self.stages} stages, {self.concurrent_stages} of them concurrent"

    def _padding(self) -> tuple[str, ...]:
        """Line on the effect of padded merged kernels on inf and NaN; empty without them."""
        if not self.padded_kernels:
            return ()
        return (
            f"merged stages that pad kernels with zeros: {self.padded_merged_stages}, padded "
            f"convolutions in them: {self.padded_kernels}; around an inf or NaN of their input "
            "they give NaN, which a ReLU may make 0 (pad_merged_kernels=False merges equal "
            "kernels only)",
        )

    def to_html(self, *, title: str = "", command: str = "") -> str:
        """Report as an HTML page in one file, with pictures of the schedule and of a run.

        Title and command are those of :class:`~tvm_ios.report.html.report_page.ReportPage`.
        """
        if self.story is None:
            raise OptionError(
                "this report has no story of its model, which a page shows; take the report of "
                "what tvm_ios.tune returns"
            )
        return ReportPage(story=self.story, title=title, command=command).to_html()

    def to_json(self) -> str:
        """Report as JSON with raw rounds; of the story only facts that stand nowhere else."""
        data: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        data["kept"] = self.kept.value
        data["comparison"] = self.comparison.as_record()
        data["records"] = None if self.records is None else self.records.as_record()
        data["story"] = None if self.story is None else self.story.as_record()
        return json.dumps(data, indent=1)
