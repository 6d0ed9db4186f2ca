"""Pictures of traced runs on one axis of time."""

from __future__ import annotations

import sys

import pytest

from tvm_ios.errors import ArtifactError, HostError
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.report.lanes_figure import DrawnRun, draw_runs

EVENTS = [
    TraceEvent(operator="conv2d_0", stage=0, group=0, lane=0, start_ns=0, end_ns=20_000),
    TraceEvent(operator="max_pool2d_0", stage=0, group=1, lane=1, start_ns=100, end_ns=9_000),
]
RUNS = [
    DrawnRun(title="one after another: 0.03 ms", lanes=2, events=EVENTS),
    DrawnRun(title="side by side: 0.02 ms", lanes=2, events=EVENTS[:1]),
]


def test_runs_stand_below_each_other(tmp_path):
    path = tmp_path / "net.svg"
    draw_runs(RUNS, path, title="net")
    drawn = path.read_text()
    for told in ("net", RUNS[0].title, RUNS[1].title, "lane 1", "convolution", "pooling"):
        assert f"<!-- {told} -->" in drawn
    assert "element-wise" not in drawn


def test_a_picture_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(ArtifactError, match=r"cannot write .*net\.png: .*; choose another --out"):
        draw_runs(RUNS, tmp_path / "no" / "net.png", title="net")


def test_want_of_matplotlib_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # as if it were not installed
    with pytest.raises(HostError, match="needs matplotlib"):
        draw_runs(RUNS, tmp_path / "net.png", title="net")
