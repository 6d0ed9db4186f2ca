"""``tvm-ios experiment``: lists, runs one, prints JSON, and names what there is."""

from __future__ import annotations

import json

import pytest

from tvm_ios.cli.main import main
from tvm_ios.experiments.papers.registry import EXPERIMENTS


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


@pytest.mark.slow(1)
def test_json_is_all_there_is_on_standard_output(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "tvm_ios.experiments.papers.counts.PAPER_NETWORKS", {"SqueezeNet": "", "Inception V3": ""}
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
