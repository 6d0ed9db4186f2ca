"""``tvm-ios show``: prints facts of a compiled model or a schedule, without TVM or a device."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.errors import OptionError
from tvm_ios.report.figure import draw_schedule
from tvm_ios.report.html.report_page import ReportPage, write_pages
from tvm_ios.runtime.artifact.decisions_file import read_decisions
from tvm_ios.runtime.artifact.footer import read_footer, read_story
from tvm_ios.runtime.artifact.story import ModelStory

if TYPE_CHECKING:
    from tvm_ios.cli.main import Subparsers

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Subparsers) -> None:
    """Declare the verb's options."""
    parser = subparsers.add_parser(
        "show",
        description="Print what a compiled model is and why: what was kept, its stages, the "
        "machine and the versions that made it. Or print a schedule in JSON.",
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a compiled model (.so), decisions or a schedule (.json)",
    )
    parser.add_argument(
        "--figure", type=Path, metavar="FILE", help="draw the schedule: .png, .svg or .pdf"
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write a page with all of it and pictures"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print, and write what is asked for; return 0."""
    if arguments.file.suffix.lower() == ".json":
        story, text = None, read_decisions(arguments.file).as_text()
    else:
        story, text = read_story(arguments.file), _as_text(arguments.file)
    print(text)
    if arguments.figure is None and arguments.html is None:
        return 0
    if story is None:
        raise OptionError(
            f"{arguments.file} has no operator graph, which a picture needs; give a model that "
            "export_library of this tvm-ios wrote"
        )
    try:
        _draw(story, arguments.file.stem, arguments.figure, arguments.html)
    except (OSError, ValueError) as error:  # ValueError: matplotlib knows no such ending
        raise OptionError(
            f"cannot write the picture: {error}; name a .png, .svg, .pdf or .html in a folder "
            "that is there and writable"
        ) from error
    return 0


def _draw(story: ModelStory, title: str, figure: Path | None, page: Path | None) -> None:
    if figure is not None:
        draw_schedule(story.graph, story.schedule, figure)
        print(f"wrote {figure}")
    if page is not None:
        pages = {
            each.shape: ReportPage(story=each, title=f"{title} {each.shape}".rstrip())
            for each in (story, *story.others)
        }
        for written in write_pages(pages, page):
            print(f"wrote {written}")


def _as_text(path: Path) -> str:
    identity, story = read_footer(path).identity, read_story(path)
    lines = [
        f"{path}: {path.stat().st_size / 1e6:.1f} MB for {identity.target}, lanes: "
        f"{identity.lanes}",
        f"made for the processor {identity.processor_model}, with TVM {identity.tvm_version}",
    ]
    if story is None:
        return "\n".join([*lines, "it was exported before files told of their models"])
    machine = ", ".join(f"{name} {value}" for name, value in story.machine.items())
    versions = ", ".join(f"{name} {value}" for name, value in story.versions.items())
    lines += [
        f"machine: {machine}",
        f"versions: {versions}",
        *([] if story.report or not story.rest else [story.rest]),
    ]
    for each in (story, *story.others):
        lines += [
            *([f"\n{each.shape}"] if each.shape else []),
            *(part.as_text() for part in each.parts),
            each.report or "the schedule was given: nothing was tuned",
            each.schedule.as_text(),
        ]
    return "\n".join(lines)
