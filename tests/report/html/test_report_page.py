"""The page of one model: what it shows, what it escapes, and how large it gets."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule, Stage
from tvm_ios.errors import ArtifactError, HostError
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.report.contestants import STOCK_ALL, STOCK_ONE
from tvm_ios.report.html.report_page import ReportPage
from tvm_ios.report.html.templates import script_digest, templates
from tvm_ios.runtime.artifact.evidence import Evidence, TracedRuns
from tvm_ios.runtime.artifact.story import ModelStory
from tvm_ios.search.baselines import sequential_schedule

HOSTILE = "</title><script>alert('x')</script><b onclick=\"1\">&amp;"
VOID = {"meta", "link", "br", "img", "input", "hr", "col"}


class Document(HTMLParser):
    """Elements of a page with their attributes; closing tags have to fit."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def having(self, tag: str, name: str) -> list[dict[str, str]]:
        """Elements of a class."""
        return [
            attrs
            for each, attrs in self.elements
            if each == tag and name in attrs.get("class", "").split()
        ]

    @property
    def kinds(self) -> set[tuple[str, frozenset[str]]]:
        """Elements and the names of their attributes."""
        return {(tag, frozenset(attrs)) for tag, attrs in self.elements}

    @property
    def sections(self) -> list[str]:
        return [attrs["id"] for tag, attrs in self.elements if tag == "section"]


def page_of(story: ModelStory, **options: str) -> Document:
    return Document(ReportPage(story=story, **options).to_html())


def test_all_that_was_measured_is_there(story):
    page = page_of(story, title="a model", command="tvm-ios tune 'a model'")
    assert page.sections == [
        *("contestants", "schedule", "stages", "lanes", "tuning", "words", "machine")
    ]
    for words in (
        "a model",
        "Kept greedy : 1.361 times as fast as sequential order.",
        "greedy kept 1.5000 ms 1.360",
        "ios 1.0000 ms 2.032 2.000 to 2.063 wins (8 rounds)",
        "a note on the race",
        "hand-made : 8 operators, 5 stages, 1 merged, predicted 0.123 ms",
        "merge of 2 wide | narrow 8.0 µs 8.0 µs 1.00",
        "one group relu → depthwise → sum \N{EN DASH} 4.0 µs",
        "Sum of all stages \N{EN DASH} 14.0 µs",
        "The traced run took 14.0 µs in all; in the race, without tracing, the median of a run "
        "was 1.5000 ms.",
        "lane 1 18 %",
        "lane 2 0 %",
        "from 4.000 ms to 2.500 ms in 64 candidates",
        "search 20.2 s",
        "kept greedy: in words",
        "processor a processor",
        "tvm-ios tune 'a model'",
    ):
        assert words in page.text
    assert len(page.having("g", "op")) == len(story.graph)
    assert len(page.having("rect", "launch")) == len(story.evidence.traced.timeline)
    assert len(page.having("rect", "merge")) == 1


def test_the_box_has_the_bottleneck_and_the_ceiling(story):
    page = page_of(replace(story, ceiling="a chain", rest="1 of 3 nodes"))
    for words in (
        "latency 1.5000 ms (1.5000 to 1.5000); sequential order 2.04 ms",
        "bottleneck: ",
        "ceiling: a chain",
        "8 operators in 5 stages, 0 of them concurrent, 1 merged 1 of 3 nodes",
    ):
        assert words in page.text
    assert len(page.having("ul", "box")) == 1


def test_contestants_are_explained_and_stock_tvm_is_a_row(story):
    rounds = tuple(
        CompareRound(run_ns=(4e6, 8e6, 2e6, 1.5e6), ping_pong_ns=50.0, slow=False) for _ in range(8)
    )
    names = (STOCK_ONE, STOCK_ALL, "sequential", "greedy")
    stock = Comparison(names=names, rounds=rounds, confidence=0.95, notes=())
    evidence = replace(story.evidence, stock=stock)
    page = page_of(replace(story, evidence=evidence))
    for words in (
        "greedy kept 1.5000 ms 1.360",  # of the race that it won, and not of the one with TVM
        "TVM, 1 thread 4.0000 ms 0.500 0.500 to 0.500 loses",
        "TVM, all threads 8.0000 ms 0.250",
        "greedy each stage runs all operators that are ready, without any price",
        "TVM, 1 thread the model as given, compiled by TVM alone, on one thread",
    ):
        assert words in page.text
    assert ModelStory.from_bytes(replace(story, evidence=evidence).to_bytes()).evidence == evidence


def test_sections_of_what_nobody_measured_are_left_out(story):
    page = page_of(replace(story, evidence=None, report=""))
    assert page.sections == ["schedule", "stages", "machine"]
    assert "The schedule hand-made was given: nothing was tuned or timed." in page.text
    assert "branches" in page.text
    assert "Predicted" not in page.text
    untraced = replace(story.evidence, traced=TracedRuns(), curve=())
    page = page_of(replace(story, evidence=untraced))
    assert page.sections == ["contestants", "schedule", "stages", "words", "machine"]
    assert "traced" not in page.text


def test_a_list_says_that_its_stages_overlap(story, schedule):
    homes = tuple(index % 3 for index in range(len(story.graph)))
    listed = replace(sequential_schedule(story.graph), home_lanes=homes)
    evidence = replace(story.evidence, prices_ns=(), traced=TracedRuns())
    page = page_of(replace(story, schedule_json=listed.to_json(), evidence=evidence))
    assert "Lanes of the list 3" in page.text
    assert "a list on 3 lanes" in page.text
    assert "2 lane 2 narrow" in page.text
    assert "Sum of all stages" not in page.text


def test_nothing_is_loaded_and_no_other_script_runs(story):
    page = ReportPage(story=story).to_html()
    assert re.findall(r"(?:src|href)\s*=\s*[\"'](?!#)", page) == []
    assert re.findall(r"url\((?!#)|@import", page) == []
    assert "http" not in page.replace("http-equiv", "")
    assert f"script-src '{script_digest()}'" in page
    assert "default-src 'none'" in page
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert script == templates().get_template("zoom.js").render()


def test_names_are_text_and_nothing_else(story, graph):
    """Every word of a model, a machine or a command may be anything at all."""
    operators = [
        replace(each, name=f"{each.name}{HOSTILE}", kind=f"{each.kind}{HOSTILE}")
        for each in graph.operators
    ]
    bad = OperatorGraph(HOSTILE, tuple(operators))
    schedule = replace(
        InterOpSchedule.from_json(story.schedule_json),
        graph_name=HOSTILE,
        operator_names=tuple(each.name for each in operators),
        scheduler=HOSTILE,
        priced_by=HOSTILE,
    )
    priced = replace(story.schedule, priced_by="a model").to_json()
    evidence = story.evidence
    events = tuple(replace(each, operator=HOSTILE) for each in evidence.traced.timeline)
    race = replace(evidence.race, names=("sequential", HOSTILE, "ios"), notes=(HOSTILE,))
    hostile = replace(
        story,
        graph=bad,
        schedule_json=schedule.to_json(),
        report=HOSTILE,
        machine={HOSTILE: HOSTILE},
        versions={"tvm-ios": HOSTILE, HOSTILE: HOSTILE},
        evidence=replace(
            evidence,
            kept=HOSTILE,
            reason=HOSTILE,
            race=race,
            traced=replace(evidence.traced, timeline=events),
            phase_s={HOSTILE: 1.0},
        ),
    )
    text = ReportPage(story=hostile, title=HOSTILE, command=HOSTILE).to_html()
    page, plain = Document(text), page_of(replace(story, schedule_json=priced), command="c")
    assert text.count("<script") == 1
    # No name has opened an element or added an attribute that the page does not have anyway.
    assert page.kinds == plain.kinds
    assert page.text.count("alert('x')") > 20


@pytest.mark.slow(1)
def test_500_operators_are_a_page_of_less_than_2_mb(story, graph):
    first = graph.operators[0]
    operators = [replace(first, name="op_0")]
    operators += [
        replace(first, name=f"a_rather_long_name_of_an_operator_{index}", predecessors=(index - 1,))
        for index in range(1, 500)
    ]
    large = OperatorGraph("large", tuple(operators))
    schedule = sequential_schedule(large)
    run = tuple(
        replace(
            story.evidence.traced.timeline[0],
            operator=operator.name,
            stage=index,
            start_ns=1000 * index,
            end_ns=1000 * index + 900,
        )
        for index, operator in enumerate(operators)
    )
    traced = TracedRuns.of([run], schedule)
    evidence = replace(story.evidence, traced=traced, prices_ns=traced.stage_ns)
    text = ReportPage(
        story=replace(story, graph=large, schedule_json=schedule.to_json(), evidence=evidence)
    ).to_html()
    assert len(text.encode()) < 2_000_000
    page = Document(text)
    assert len(page.having("g", "op")) == len(page.having("rect", "launch")) == 500


def test_an_empty_graph_has_a_page(story):
    graph = OperatorGraph("nothing", ())
    empty = replace(
        story, graph=graph, schedule_json=sequential_schedule(graph).to_json(), evidence=None
    )
    assert "0 operators" in page_of(empty).text


def test_a_missing_jinja_names_the_extra(story, monkeypatch):
    templates.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(HostError, match=r"pip install 'jinja2>="):
        ReportPage(story=story).to_html()


def test_a_file_that_cannot_be_written_is_told(story, tmp_path):
    path = tmp_path / "page.html"
    ReportPage(story=story).write(path)
    assert path.read_text(encoding="utf-8") == ReportPage(story=story).to_html()
    with pytest.raises(ArtifactError, match="cannot write the page .*no folder.*page.html: "):
        ReportPage(story=story).write(tmp_path / "no folder" / "page.html")


def test_a_story_with_evidence_comes_back_from_its_bytes(story, evidence):
    assert isinstance(evidence, Evidence)
    assert ModelStory.from_bytes(story.to_bytes()) == story
    assert Stage(((0,),)) in story.schedule.stages
