"""``tvm-ios experiment``: lists, runs one, prints JSON, and names what there is."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from types import SimpleNamespace

import pytest

from lab.tests.harness.test_run import NumberCell, Squares
from tvm_ios.cli.main import main
from tvm_ios.jobs.ledger import CellStep
from tvm_ios_lab.cli import experiment as verb
from tvm_ios_lab.harness.ledger import Status
from tvm_ios_lab.papers.registry import EXPERIMENTS


def parsed(words):
    parser = argparse.ArgumentParser()
    verb.add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["experiment", *words])
    arguments.debug = False
    return arguments


def test_list_has_every_experiment(capsys):
    assert main(["experiment", "list"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said] == [each.name for each in EXPERIMENTS]
    assert main(["experiment", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["title"] for each in listed] == [each.title for each in EXPERIMENTS]


def test_an_unknown_name_is_told_the_names_there_are(capsys):
    assert main(["experiment", "count"]) == 2
    said = capsys.readouterr().err
    assert "no experiment named 'count'; choose one of " in said
    assert all(each.name in said for each in EXPERIMENTS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--time-budget", "0"), "time_budget is 0.0; give seconds above 0"),
        (("--time-budget", "-5"), "time_budget is -5.0; give seconds above 0"),
        (("--time-budget", "inf"), "time_budget is inf; give seconds that end"),
        (("--lanes", "4096"), "lanes is 4096, but this process may use"),
        (("--peers-python", "nowhere/python"), "nowhere/python, and no such interpreter is there"),
    ],
)
def test_what_no_cell_can_have_is_refused_before_the_first(words, said, capsys, tmp_path):
    assert main(["experiment", "counts", "--output", str(tmp_path), *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tvm-ios: error: ")
    assert said in line
    assert not list(tmp_path.iterdir())


@pytest.mark.slow(1)
def test_an_experiment_that_ends_does_not_end_the_others(capsys, tmp_path, monkeypatch):
    whole = Squares(numbers=(2,), measured=[])
    monkeypatch.setattr(verb, "EXPERIMENTS", (Squares(name="broken", measured=[]), whole))
    cells = tmp_path / "broken" / "cells"
    words = ["experiment", "all", "--output", str(tmp_path), "--json"]
    assert main(words) == 1
    path = next(cells.glob("2-*.json"))
    path.write_text("{")
    capsys.readouterr()
    assert main(words) == 1
    said = capsys.readouterr()
    assert [each["experiment"] for each in json.loads(said.out)] == ["squares"]
    assert f"tvm-ios: error: broken: {path}: " in said.err.splitlines()[-1]
    assert "delete that file" in said.err


def test_pages_and_interruptions_name_every_option(tmp_path, monkeypatch):
    def interrupted(*_, command, go_on, **__):
        raise KeyboardInterrupt(command, go_on)

    monkeypatch.setattr(verb, "run_experiment", interrupted)
    monkeypatch.chdir(tmp_path)
    words = ["--quick", "--lanes", "1", "--peers-python", sys.executable, "--time-budget", "60"]
    here = ["--output", str(tmp_path / "my results"), "--database", "d b", "--retry"]
    arguments = parsed(["all", *words, "--output", "my results", "--database", "d b", "--retry"])
    with pytest.raises(KeyboardInterrupt) as ended:
        verb.run(arguments)
    page, go_on = ended.value.args
    assert page == (
        "tvm-ios experiment sample --quick --lanes 1 --peers-python FILE --time-budget 60"
    )
    assert shlex.split(go_on) == ["tvm-ios", "experiment", "all", *words, *here]
    assert parsed(["all"]).time_budget == 240


@pytest.mark.slow(1)
def test_fresh_cells_are_measured_once_though_interrupted(tmp_path, monkeypatch):
    first, last = (Squares(name=name, numbers=(2, 3), measured=[]) for name in ("first", "last"))
    monkeypatch.setattr(verb, "EXPERIMENTS", (first, last))
    words = ["all", "--output", str(tmp_path)]
    assert verb.run(parsed(words)) == 0

    class Interrupted(Squares):
        def measure(self, cell, bench):
            if cell.number == 3:
                raise KeyboardInterrupt
            return super().measure(cell, bench)

    interrupted = Interrupted(name="first", numbers=(2, 3), measured=[])
    monkeypatch.setattr(verb, "EXPERIMENTS", (interrupted, last))
    with pytest.raises(KeyboardInterrupt) as ended:
        verb.run(parsed([*words, "--fresh"]))
    (note,) = ended.value.__notes__
    monkeypatch.setattr(verb, "EXPERIMENTS", (first, last))
    assert verb.run(parsed(shlex.split(note.partition("tvm-ios experiment ")[2]))) == 0
    assert (first.measured, last.measured) == ([2, 3, 3], [2, 3, 2, 3])


def test_fresh_leaves_out_an_experiment_whose_folder_cannot_be_had(capsys, tmp_path, monkeypatch):
    whole = Squares(name="whole", numbers=(2,), measured=[])
    taken = Squares(name="taken", measured=[])
    monkeypatch.setattr(verb, "EXPERIMENTS", (whole, taken))
    (tmp_path / "taken").touch()
    assert main(["experiment", "all", "--output", str(tmp_path), "--fresh"]) == 1
    assert (whole.measured, taken.measured) == ([2], [])
    errors = [line for line in capsys.readouterr().err.splitlines() if "error: taken: " in line]
    assert len(errors) == 1


def test_a_cell_that_was_built_in_a_hurry_is_told(capsys):
    record = SimpleNamespace(seconds=1.0, status=Status.DONE, message="", time_budget_s=60.0)
    step = CellStep(number=1, cells=1, cell=NumberCell(number=7), result=record, is_new=False)
    verb._tell(step, time_budget_s=240.0)
    verb._tell(step, time_budget_s=60.0)
    assert capsys.readouterr().err.splitlines() == [
        "[1/1] 7: 1.0 s (known, built within 60 s; --fresh measures it again)",
        "[1/1] 7: 1.0 s (known)",
    ]


@pytest.mark.slow(1)
def test_json_is_all_there_is_on_standard_output(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "tvm_ios_lab.papers.counts.PAPER_NETWORKS", {"SqueezeNet": "", "Inception V3": ""}
    )
    words = ["experiment", "counts", "--output", str(tmp_path)]
    assert main([*words, "--json"]) == 0
    said = capsys.readouterr()
    (record,) = json.loads(said.out)
    assert record["command"] == "tvm-ios experiment counts"
    assert [cell["found"]["transitions"] for cell in record["cells"]] == [51, 60, 4871, 5040]
    assert record["cells"][0]["found"]["schedules"] == 131
    assert "[1/4] SqueezeNet, published ..." in said.err
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.err.count("(known)") == 4
    assert "published transitions" in said.out
    assert f"wrote {tmp_path}/counts/table.md" in said.out
    assert main([*words, "--tune", "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["command"] == "tvm-ios experiment counts --tune"
