"""Folders of runs: whole or not there, read strictly, and found by name."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from tvm_ios.driver.chain.benchmark_context import BenchmarkContext, StepTime
from tvm_ios.driver.chain.latency import Latency
from tvm_ios.driver.chain.run_folder import RunFolder, RunReport, new_run_id, runs_directory
from tvm_ios.driver.chain.service_level import Answer, ServiceLevel
from tvm_ios.errors import ArtifactError, HostError, OptionError

LATENCY = Latency(median_ms=2.0, low_ms=1.5, high_ms=2.5, confidence=0.95, rounds=6)
CONTEXT = BenchmarkContext(
    steps=(
        StepTime(step="from_model", seconds=0.5),
        StepTime(
            step="autotune",
            seconds=7.0,
            calls=({"build": 1.0, "tune": 2.0}, {"build": 3.0}),
        ),
    ),
    machine={"processor": "Mite 3"},
    versions={"tvm": "0.17"},
)
REPORT = RunReport(
    run_id="",
    model="net",
    target="llvm",
    lanes=2,
    inputs=("data",),
    logs=("a.log",),
    context=CONTEXT,
    latency=LATENCY,
    service_level=ServiceLevel(sla_ms=3.0, answers=(Answer(trials=None, latency=LATENCY),)),
)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path / "cache"))


def saved(name="net"):
    report = replace(REPORT, run_id=new_run_id(name))
    return RunFolder.make(report, lambda path: path.write_text("model"), schedule="{}"), report


def test_a_run_is_saved_and_found():
    folder, report = saved()
    found = RunFolder.find(report.run_id)
    assert found == folder
    assert found.report() == report
    assert found.library.read_text() == "model"
    assert sorted(path.name for path in folder.path.iterdir()) == [
        "model.so",
        "run.json",
        "schedule.json",
    ]


def test_a_report_gets_what_was_found_out_later():
    folder, report = saved()
    faster = replace(report, latency=replace(LATENCY, median_ms=1.0))
    folder.write(faster)
    assert RunFolder.find(report.run_id).report() == faster


def test_a_run_that_cannot_be_exported_leaves_nothing():
    def export(path):
        path.write_text("half")
        raise ArtifactError("no space")

    with pytest.raises(ArtifactError, match="no space"):
        RunFolder.make(replace(REPORT, run_id="one"), export)
    assert list(runs_directory().iterdir()) == []


def test_an_unknown_run_is_refused_with_the_runs_there_are():
    with pytest.raises(ArtifactError, match=r"no run 'mine' in .*; the newest are none"):
        RunFolder.find("mine")
    _, report = saved()
    with pytest.raises(ArtifactError, match=report.run_id):
        RunFolder.find("mine")


@pytest.mark.parametrize("name", ["", "../net", "a/b", ".hidden", 3, None])
def test_what_is_no_name_of_a_run_is_refused(name):
    with pytest.raises(OptionError, match="run_id is .*; give the name of a run"):
        RunFolder.find(name)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 9}, "the run has version 9, this tvm-ios reads 1"),
        ({"lanes": 0}, "lanes is 0; expected a whole number of 1 or more"),
        ({"inputs": "data"}, "inputs is 'data'; expected a list"),
        ({"latency": {}}, "lacks the field 'median_ms'"),
    ],
)
def test_a_damaged_report_is_refused_with_its_file_and_place(change, told):
    folder, _ = saved()
    data = json.loads(folder.report_path.read_text())
    folder.report_path.write_text(json.dumps(data | change))
    with pytest.raises(ArtifactError, match=f"run.json: .*{told}"):
        folder.report()


def test_names_of_runs_sort_by_time_and_fit_every_file_system():
    name = new_run_id("my net/v2")
    assert name.split("-", 2)[2].startswith("my-net-v2-")
    assert new_run_id("my net/v2") != name
    assert RunFolder(path=runs_directory() / name).path.parent == runs_directory()


def test_the_context_tells_where_the_time_went():
    assert CONTEXT.seconds == 7.5
    assert CONTEXT.mean_phase_s == {"build": 2.0, "tune": 2.0}
    text = CONTEXT.as_text()
    assert "autotune       7.000 s (calls of tune: 2; build 4.0, tune 2.0)" in text
    assert "processor Mite 3, tvm 0.17" in text
    assert "service level 3 ms: met" in REPORT.as_text()


def test_a_run_that_others_may_change_is_refused_and_a_new_one_is_not_like_that():
    before = os.umask(0o002)
    try:
        folder, report = saved()
    finally:
        os.umask(before)
    assert RunFolder.find(report.run_id) == folder
    for planted in (folder.library, folder.path, runs_directory()):
        kept = planted.stat().st_mode & 0o7777
        planted.chmod(0o777)
        with pytest.raises(HostError, match=f"{planted} belongs to .* has mode 0777"):
            RunFolder.find(report.run_id)
        planted.chmod(kept)
