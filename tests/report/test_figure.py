from __future__ import annotations

import struct
import sys
from dataclasses import replace

import pytest

from tvm_ios.core.graph import OperatorGraph
from tvm_ios.errors import HostError, OptionError, ScheduleError
from tvm_ios.report.figure import draw_schedule
from tvm_ios.search.baselines import sequential_schedule


def size_of(path) -> tuple[int, int]:
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", header[16:24])


def svg_of(tmp_path, graph, schedule, **options) -> str:
    path = tmp_path / "schedule.svg"
    draw_schedule(graph, schedule, path, **options)
    return path.read_text()


def test_a_list_tells_its_lanes(tmp_path, graph):
    homes = tuple(index % 3 for index in range(len(graph)))
    svg = svg_of(tmp_path, graph, replace(sequential_schedule(graph), home_lanes=homes))
    assert "a list on 3 lanes" in svg
    assert "lane 2" in svg


@pytest.mark.slow
def test_a_png_is_written(tmp_path, graph, schedule):
    path = tmp_path / "schedule.png"
    draw_schedule(graph, schedule, path, stage_latencies_ns=[10, 2000, 3000, 40, 5_000_000])
    width, height = size_of(path)
    assert width > 500
    assert height > 300


def test_resolution_is_an_option(tmp_path, graph, schedule):
    for dots in (50, 100):
        draw_schedule(graph, schedule, tmp_path / f"{dots}.png", dots_per_inch=dots)
    small, large = size_of(tmp_path / "50.png"), size_of(tmp_path / "100.png")
    assert large[0] == pytest.approx(2 * small[0], abs=2)


def test_the_same_picture_twice_is_the_same_file(tmp_path, graph, schedule):
    for name in ("a.png", "b.png"):
        draw_schedule(graph, schedule, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_texts_say_what_is_scheduled_how_and_how_long(tmp_path, graph, schedule):
    # The SVG writer leaves each text as a comment beside its glyphs.
    svg = svg_of(tmp_path, graph, schedule, stage_latencies_ns=[10, 2000, 3000, 40, 5_000_000])
    for text in (
        "branches",
        "schedule: hand-made; 8 operators, 5 stages, 1 merged, predicted 0.123 ms",
        "stage 4",
        "merge",
        "5.00 ms",
        "conv 3×3",  # noqa: RUF001
        "depthwise",
        "debug print",
        "pooling",
        "predicted latency",
    ):
        assert f"<!-- {text}" in svg or text in svg


def test_without_latencies_no_bar_is_explained(tmp_path, graph, schedule):
    assert "predicted latency" not in svg_of(tmp_path, graph, schedule)


def test_a_picture_says_that_nothing_was_measured(tmp_path, graph, schedule):
    text = svg_of(tmp_path, graph, replace(schedule, priced_by="model of a GPU"))
    assert "by the model of a GPU" in text
    assert "by the" not in svg_of(tmp_path, graph, schedule)


def test_an_empty_graph_can_be_drawn(tmp_path):
    graph = OperatorGraph("nothing", ())
    draw_schedule(graph, sequential_schedule(graph), tmp_path / "empty.png")
    assert size_of(tmp_path / "empty.png")[0] > 100


def test_a_schedule_of_another_graph_is_refused(tmp_path, graph, schedule):
    other = OperatorGraph("other", graph.operators[:3])
    with pytest.raises(ScheduleError, match="does not fit graph 'other'"):
        draw_schedule(other, schedule, tmp_path / "x.png")


def test_one_latency_a_stage_is_needed(tmp_path, graph, schedule):
    with pytest.raises(OptionError, match="2 latencies for 5 stages"):
        draw_schedule(graph, schedule, tmp_path / "x.png", stage_latencies_ns=[1, 2])


def test_missing_matplotlib_names_the_extra(tmp_path, graph, schedule, monkeypatch):
    # None in sys.modules makes the import fail as if the package were not installed.
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(HostError, match=r"pip install 'matplotlib>="):
        draw_schedule(graph, schedule, tmp_path / "x.png")
