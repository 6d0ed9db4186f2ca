"""The page in a real browser: its script runs, its pictures are there and are painted.

Chromium alone does it, with no driver: it prints the page's elements after the script has run, and
takes a picture of them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from tests.report.html.test_report_page import HOSTILE, Document
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.report.html.report_page import ReportPage
from tvm_ios.report.palette import FAMILIES
from tvm_ios.runtime.artifact.story import ModelStory

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
WIDTH, HEIGHT = 1200, 2600
NARROW = 420
LIGHT, DARK = "#ffffff", "#15181b"
MEASURED = "#0072b2"
CONVOLUTION, POOLING = FAMILIES[1].fill, FAMILIES[2].fill

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        BROWSER is None,
        reason="no chromium on PATH to look at a page with; on Debian: apt-get install chromium",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a browser makes of a page."""

    elements: Document
    pixels: np.ndarray
    """Height by width by three, from 0 to 255."""

    def count(self, colour: str, rows: slice = slice(None)) -> int:
        """Pixels of exactly this colour within rows."""
        wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
        return int(np.all(self.pixels[rows] == wanted, axis=2).sum())

    def rows_of(self, colour: str) -> np.ndarray:
        """Rows of pixels that have this colour."""
        wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
        return np.flatnonzero(np.any(np.all(self.pixels == wanted, axis=2), axis=1))

    def colours(self, rows: slice) -> int:
        """Distinct colours within rows."""
        return len(np.unique(self.pixels[rows].reshape(-1, 3), axis=0))


@pytest.fixture(scope="module")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Open a page in a browser that does what its flags say; what it prints."""
    profile = tmp_path_factory.mktemp("profile")

    def browse(page: Path, *flags: str) -> str:
        done = subprocess.run(
            [
                str(BROWSER),
                "--headless",
                "--no-sandbox",  # tests may run as root
                "--disable-gpu",
                "--hide-scrollbars",
                f"--user-data-dir={profile}",
                *flags,
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return browse


@pytest.fixture
def look(browse: Callable[..., str], tmp_path: Path) -> Callable[..., Seen]:
    """What a browser makes of the text of a page."""

    def look(text: str, *flags: str, width: int = WIDTH) -> Seen:
        page, picture = tmp_path / "page.html", tmp_path / "page.png"
        page.write_text(text, encoding="utf-8")
        size, shot = f"--window-size={width},{HEIGHT}", f"--screenshot={picture}"
        elements = browse(page, "--dump-dom", size, shot, *flags)
        pixels = np.rint(imread(picture)[:, :, :3] * 255).astype(np.uint8)
        return Seen(elements=Document(elements), pixels=pixels)

    return look


@pytest.fixture
def hostile(story: ModelStory, graph: OperatorGraph) -> ModelStory:
    """Operators whose names would be a script."""
    operators = tuple(replace(each, name=f"{each.name}{HOSTILE}") for each in graph.operators)
    schedule = replace(story.schedule, operator_names=tuple(each.name for each in operators))
    return replace(
        story,
        graph=OperatorGraph(graph.name, operators),
        schedule_json=schedule.to_json(),
    )


def test_the_script_runs_and_every_picture_is_painted(look, hostile):
    seen = look(ReportPage(story=hostile, title=f"a model {HOSTILE}").to_html())
    page = seen.elements
    (root,) = [attrs for tag, attrs in page.elements if tag == "html"]
    assert root == {"lang": "en", "data-script": "ran"}  # an error would be data-error
    assert page.sections == [
        *("contestants", "schedule", "stages", "lanes", "tuning", "words", "machine")
    ]
    assert len([tag for tag, _ in page.elements if tag == "script"]) == 1
    assert len(page.having("g", "op")) == len(hostile.graph)
    assert len(page.having("rect", "launch")) == len(hostile.evidence.traced.timeline)
    assert len(page.having("div", "live")) == len(page.having("div", "tools")) == 2
    assert len([tag for tag, _ in page.elements if tag == "button"]) == 6

    assert seen.pixels.shape == (HEIGHT, WIDTH, 3)
    assert seen.count(LIGHT) > 0.5 * HEIGHT * WIDTH
    assert seen.colours(slice(0, 300)) > 20  # the title and what was kept
    assert seen.count(MEASURED, slice(300, 800)) > 200  # intervals
    for family in (CONVOLUTION, POOLING):  # in the schedule, and again on the lanes
        rows = seen.rows_of(family)
        assert rows[0] < 1200
        assert rows[-1] > rows[0] + 500
    assert seen.count(CONVOLUTION) > 2000


def test_it_is_dark_and_narrow_where_the_reader_is(look, story):
    """Nothing reaches beyond the window but tables and charts, which scroll by themselves."""
    seen = look(ReportPage(story=story).to_html(), "--force-dark-mode", width=NARROW)
    assert seen.count(DARK) > 0.5 * HEIGHT * NARROW
    assert seen.count(LIGHT) < 0.02 * HEIGHT * NARROW
    edge = replace(seen, pixels=seen.pixels[:, -4:])
    assert edge.count(DARK) > 0.97 * HEIGHT * 4
    assert seen.count(CONVOLUTION) > 300


def test_a_script_that_is_not_ours_does_not_run_and_nothing_is_missing(look, story):
    text = ReportPage(story=story).to_html()
    seen = look(text.replace('"use strict";', '"use strict"; ', 1))
    page = seen.elements
    (root,) = [attrs for tag, attrs in page.elements if tag == "html"]
    assert root == {"lang": "en"}
    assert page.having("div", "tools") == []
    assert len(page.having("g", "op")) == len(story.graph)
    for family in (CONVOLUTION, POOLING):
        assert seen.count(family) > 1000


def test_it_prints_on_a_few_pages(browse, story, tmp_path):
    page, paper = tmp_path / "page.html", tmp_path / "page.pdf"
    ReportPage(story=story).write(page)
    browse(page, f"--print-to-pdf={paper}", "--no-pdf-header-footer", "--force-dark-mode")
    sheets = re.findall(rb"/Type\s*/Page\b", paper.read_bytes())
    assert 1 <= len(sheets) <= 4
