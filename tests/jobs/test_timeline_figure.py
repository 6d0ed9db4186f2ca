"""The picture of who had which core and device, and what each job did."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tests.jobs.test_timeline import BUILD, MACHINE, PROFILE
from tvm_ios.cli.main import main
from tvm_ios.errors import HostError, JobError
from tvm_ios.jobs.state_folder import StateFolder
from tvm_ios.jobs.store import JobStore
from tvm_ios.jobs.timeline_figure import Bar, Row, draw_timeline, latest_run, timeline_rows
from tvm_ios.support.stage_gate import StageKind

NOW_S = 105.0


def bar(kind, since_s, until_s):
    return Bar(kind=kind, since_s=since_s, until_s=until_s)


def test_each_core_device_and_job_has_a_row():
    profile = bar(StageKind.PROFILE, 1.0, 5.0)
    rows = timeline_rows(MACHINE, [BUILD, PROFILE], now_s=NOW_S)
    before, whole = bar(StageKind.BUILD, 0.0, 1.0), bar(StageKind.BUILD, 0.0, 4.0)
    assert rows == (
        Row(label="core 0", bars=(before, bar(StageKind.BUILD, 1.0, 4.0)), begins_group=True),
        Row(label="core 1", bars=(before, profile)),
        Row(label="core 2", bars=()),
        Row(label="device cpu0", bars=(profile,), begins_group=True),
        Row(label="a", bars=(whole,), waits=((0.0, 0.0),), begins_group=True),
        Row(label="b", bars=(profile,), waits=((0.5, 1.0),)),
    )


def test_two_stages_on_a_core_have_half_of_its_row_each():
    kinds = (StageKind.BUILD, StageKind.SEARCH, StageKind.UPDATE, StageKind.BUILD)
    times = ((0.0, 5.0), (3.0, 4.0), (4.5, 8.0), (8.0, 9.0))
    row = Row(label="core 0", bars=tuple(bar(k, *t) for k, t in zip(kinds, times, strict=True)))
    assert row.halves() == (0, 1, 1, None)


def test_a_run_ends_with_a_pause():
    earlier = replace(BUILD, asked_s=10.0, granted_s=10.0, ended_s=20.0, places=((10.0, (0,)),))
    assert latest_run([PROFILE, earlier, BUILD], NOW_S) == (BUILD, PROFILE)
    near = replace(earlier, ended_s=60.0)
    assert latest_run([BUILD, near], NOW_S) == (near, BUILD)
    assert latest_run([], NOW_S) == ()


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_picture_is_drawn(tmp_path, ending):
    path = tmp_path / f"timeline.{ending}"
    draw_timeline(MACHINE, [BUILD, PROFILE], path, now_s=NOW_S)
    assert path.stat().st_size > 1000


def test_what_cannot_be_drawn_is_told(tmp_path, monkeypatch):
    with pytest.raises(JobError, match=r"no stage has run yet.*timeline\.png"):
        draw_timeline(MACHINE, [], tmp_path / "timeline.png", now_s=NOW_S)
    for name in ("timeline.what", "nowhere/timeline.png"):
        with pytest.raises(JobError, match=r"cannot draw .*; name a \.png"):
            draw_timeline(MACHINE, [BUILD], tmp_path / name, now_s=NOW_S)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(HostError, match=r"pip install 'matplotlib>="):
        draw_timeline(MACHINE, [BUILD], tmp_path / "timeline.png", now_s=NOW_S)


def test_the_verb_draws_what_was_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path))
    folder = StateFolder()
    folder.make()
    with JobStore(folder.database) as store:
        store.add_spans([BUILD])
    path = tmp_path / "timeline.png"
    assert main(["jobs", "trace", "--figure", str(path)]) == 0
    assert capsys.readouterr().out == f"drew {path}\n"
    assert path.read_bytes()[:4] == b"\x89PNG"
    assert main(["jobs", "trace"]) == 2
    assert "name a FILE for the trace, or --figure FILE" in capsys.readouterr().err
