"""Page on one model: its story in numbers and pictures, in one file that loads nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tvm_ios.errors import ArtifactError
from tvm_ios.report.html.curve_picture import CurvePicture
from tvm_ios.report.html.lanes_picture import LanesPicture
from tvm_ios.report.html.race_table import RaceTable
from tvm_ios.report.html.schedule_picture import SchedulePicture
from tvm_ios.report.html.stage_table import StageTable
from tvm_ios.report.html.templates import script_digest, templates
from tvm_ios.report.labels import duration, schedule_facts
from tvm_ios.report.palette import FAMILIES
from tvm_ios.report.result_box import result_box
from tvm_ios.runtime.artifact.story import ModelStory

__all__ = ["ReportPage", "write_pages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """Page of a model's story, to be read in a browser.

    Sections without measurements are left out: a model whose schedule was given has no race.
    """

    story: ModelStory
    title: str = ""
    """Title above the page; the name of the graph where empty."""
    command: str = ""
    """Command that made the model, for readers who want to repeat it; left out where empty."""

    def to_html(self) -> str:
        """HTML text of the page."""
        story, evidence, schedule = self.story, self.story.evidence, self.story.schedule
        traced = evidence.traced if evidence else None
        return (
            templates()
            .get_template("page.html")
            .render(
                title=self.title or story.graph.name,
                command=self.command,
                story=story,
                schedule=schedule,
                evidence=evidence,
                box=result_box(story)[1:],  # the verdict is the first
                facts=schedule_facts(story.graph, schedule),
                race=RaceTable.of(evidence.race, evidence.kept, evidence.stock)
                if evidence and evidence.race.names
                else None,
                picture=SchedulePicture.of(
                    story.graph, schedule, evidence.prices_ns if evidence else ()
                ),
                stages=StageTable.of(story.graph, schedule, evidence),
                lanes=LanesPicture.of(story.graph, schedule, traced.timeline, evidence.lanes)
                if evidence and traced and traced.timeline
                else None,
                curve=CurvePicture.of(evidence.curve) if evidence and evidence.curve else None,
                families=FAMILIES,
                duration=duration,
                script_digest=script_digest(),
            )
        )

    def write(self, path: Path) -> None:
        """Write the page to a file."""
        page = self.to_html()
        try:
            path.write_text(page, encoding="utf-8")
        except OSError as error:
            raise ArtifactError(
                f"cannot write the page {path}: {error.strerror or error}; name a file in a folder "
                "that is there and writable"
            ) from error


def write_pages(pages: Mapping[str, ReportPage], path: Path) -> Iterator[Path]:
    """Write pages by shape, the first one to a path and others beside it; give each one's path."""
    for place, (shape, page) in enumerate(pages.items()):
        suffix = "_" + re.sub(r"\W+", "_", shape).strip("_") if place else ""
        one = path.with_stem(path.stem + suffix)
        page.write(one)
        yield one
