"""The verb that shows what tuning brings: refusals before any work, and one whole run."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from functools import partial
from types import SimpleNamespace

import pytest

from tvm_ios.cli.main import main
from tvm_ios.core.graph import Operator, OperatorGraph
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.driver.races import demonstration
from tvm_ios.host import default_lanes
from tvm_ios.models import by_name
from tvm_ios.search.baselines import sequential_schedule


def demo(*words):
    return main(["demo", *map(str, words)])


@pytest.mark.parametrize("flags", [[], ["--tuned"]])
def test_an_unknown_network_is_named(flags, tmp_path, capsys):
    assert demo("--networks", "resnet_9000", "--output", tmp_path / "out", *flags) == 2
    assert "no network named 'resnet_9000'; choose one of" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert demo("--networks", "squeezenet", "--output", tmp_path / "file" / "out") == 2
    errors = capsys.readouterr().err
    assert "cannot write to" in errors
    assert "--output" in errors


@pytest.mark.parametrize("lanes", [0, default_lanes() + 1])
def test_lanes_that_cannot_be_are_refused(lanes, tmp_path, capsys):
    words = ["--networks", "squeezenet", "--output", tmp_path, "--database", tmp_path / "p.sqlite"]
    assert demo(*words, "--lanes", lanes) == 2
    assert f"lanes is {lanes}" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.quiet
def test_a_network_is_shown_from_end_to_end(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        demonstration,
        "by_name",
        lambda name: partial(by_name(name), size=8, channels=16, num_nodes=8),
    )
    words = ["--networks", "randwire_small", "--output", tmp_path / "out"]
    assert demo(*words, "--database", tmp_path / "p.sqlite") == 0
    shown = capsys.readouterr().out
    assert "== randwire_small ==" in shown
    assert "tune keeps" in shown
    trace = json.loads((tmp_path / "out" / "randwire_small.trace.json").read_text())
    assert trace
    assert (tmp_path / "out" / "randwire_small.png").read_bytes().startswith(b"\x89PNG")
    stored = (tmp_path / "out" / "randwire_small.schedule.json").read_text()
    kept = InterOpSchedule.from_json(stored).scheduler
    assert kept in {"ios", "list", "greedy", "sequential"}
    assert re.search(rf"tune keeps (ios \+ )?{kept}", shown)
    assert {"TVM, 1 thread", "TVM, all threads", "tvm-ios"} <= set(re.split(r"\s{2,}|\n", shown))


def test_want_of_matplotlib_costs_the_picture_alone(tmp_path, monkeypatch):
    pool = Operator(name="pool", kind="max_pool2d", predecessors=(), workload="pool")
    graph = OperatorGraph("net", (pool,))
    executor = SimpleNamespace(trace=list)
    found = SimpleNamespace(
        graph=graph,
        schedule=sequential_schedule(graph),
        executor=lambda: contextlib.nullcontext(executor),
    )
    assert str(tmp_path / "net.png") in demonstration._write_files(found, "net", tmp_path)
    (tmp_path / "net.png").unlink()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # as if it were not installed
    said = demonstration._write_files(found, "net", tmp_path)
    assert said.endswith("net.schedule.json, no picture without matplotlib")
    assert {path.name for path in tmp_path.iterdir()} == {"net.schedule.json", "net.trace.json"}


@pytest.mark.slow
def test_kernels_are_tuned_once(fork, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demonstration, "by_name", lambda name: lambda: fork)
    monkeypatch.setattr(demonstration, "TRIALS", 1)
    monkeypatch.setattr(demonstration, "TUNED_TIME_BUDGET_S", 60.0)
    words = ["--tuned", "--networks", "fork", "--output", tmp_path / "out", "--lanes", 1]
    assert demo(*words, "--database", tmp_path / "p.sqlite") == 0
    shown = capsys.readouterr().out
    assert "GFLOPS" in shown
    assert "untuned" in shown
    records = (tmp_path / "out" / "autotvm.log").read_text()
    assert records
    assert demo(*words, "--database", tmp_path / "p.sqlite") == 0
    assert "autotvm: 0 candidates" in capsys.readouterr().out
    assert (tmp_path / "out" / "autotvm.log").read_text() == records
