"""The verb that shows what tuning brings: refusals before any work, and one whole run."""

from __future__ import annotations

import json
import re
import sys
from functools import partial

import pytest

import tvm_ios
from tvm_ios.cli.demo import NETWORKS
from tvm_ios.cli.main import main
from tvm_ios.core.schedule import InterOpSchedule
from tvm_ios.driver.races import demonstration
from tvm_ios.driver.races.demonstration import OURS
from tvm_ios.host import default_lanes
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios.models import MODEL_NAMES, by_name


def demo(*words):
    return main(["demo", *map(str, words)])


def test_an_unknown_network_is_named(tmp_path, capsys):
    assert demo("--networks", "resnet_9000", "--output", tmp_path / "out") == 2
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
    shown, told = capsys.readouterr()
    table = shown[shown.index("== randwire_small ==") : shown.index("(medians")].splitlines()
    rows = [re.split(r"\s{2,}", line)[0] for line in table[3:]]
    assert {"TVM, 1 thread", "TVM, all threads", "tvm-ios"} <= set(rows)
    for row in rows:
        assert re.search(rf"^  {row}  +\S", shown, re.MULTILINE), f"{row} is not explained"
    for step in ("build", "search", "build stock TVM", "race", "draw"):
        assert f"randwire_small: {step}" in told
    trace = json.loads((tmp_path / "out" / "randwire_small.trace.json").read_text())
    assert trace
    assert (tmp_path / "out" / "randwire_small.png").read_bytes().startswith(b"\x89PNG")
    stored = (tmp_path / "out" / "randwire_small.schedule.json").read_text()
    kept = InterOpSchedule.from_json(stored).scheduler
    assert kept in {"ios", "list", "greedy", "sequential"}
    assert re.search(rf"what tune kept, (ios \+ )?{kept}: ", shown)


def test_the_networks_are_one_that_gains_and_a_chain():
    assert set(NETWORKS) <= set(MODEL_NAMES)


@pytest.mark.slow
def test_what_is_drawn_is_what_was_kept_with_the_time_of_its_row(fork, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(demonstration, "draw_runs", lambda runs, path, *, title: drawn.extend(runs))
    model = tvm_ios.compile_schedule(*fork, "llvm -opt-level=0", lanes=1)
    round_ = CompareRound(run_ns=(125_000.0,), ping_pong_ns=0.0, slow=False)
    race = Comparison(names=(OURS,), rounds=(round_,) * 6, confidence=0.95, notes=())
    said = demonstration._write_files("net", {OURS: model}, race, tmp_path)
    assert said == (
        f"wrote {tmp_path / 'net.trace.json'} (open it in Perfetto), "
        f"{tmp_path / 'net.schedule.json'}, {tmp_path / 'net.png'}"
    )
    (run,) = drawn
    assert run.title.startswith("tvm-ios: 0.1250 ms in the race")
    assert len(run.events) == len(model.plan.launches)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # as if it were not installed
    said = demonstration._write_files("net", {OURS: model}, race, tmp_path)
    assert "no picture: drawing runs needs matplotlib" in said
    assert not (tmp_path / "net.png").exists()
