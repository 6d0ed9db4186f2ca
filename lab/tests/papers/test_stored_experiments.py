"""Experiments that read stored races: what they show stands in the records."""

from __future__ import annotations

import json

import pytest

from tvm_ios.errors import ArtifactError
from tvm_ios_lab.harness import checkout
from tvm_ios_lab.harness.cell_record import outcome_of, read_record, record_path
from tvm_ios_lab.harness.protocol import Bench, Outcome, Settings
from tvm_ios_lab.papers.frameworks import OURS, Frameworks
from tvm_ios_lab.papers.frameworks import PUBLISHED_MS as FRAMEWORKS_MS
from tvm_ios_lab.papers.intra_inter import PUBLISHED_MS as TUNED_MS
from tvm_ios_lab.papers.intra_inter import IntraInter
from tvm_ios_lab.papers.pruning import Pruning
from tvm_ios_lab.papers.registry import EXPERIMENTS
from tvm_ios_lab.papers.schedules import Schedules
from tvm_ios_lab.places import RESULTS


def outcomes_of(experiment, folder):
    cells = experiment.cells(Settings(lanes=2))
    return [
        Outcome(cell=cell, found=experiment.measure(cell, Bench(folder=folder))) for cell in cells
    ]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
def test_committed_records_are_of_cells_and_can_be_read(experiment):
    folder = RESULTS / "experiments"
    cells = {
        record_path(folder, experiment, cell): cell
        for quick in (True, False)
        for cell in experiment.cells(Settings(lanes=2, quick=quick, peers=True))
    }
    paths = sorted((folder / experiment.name / "cells").iterdir())
    assert paths
    assert set(paths) <= set(cells), "of cells that there are no more"
    outcomes = [outcome_of(experiment, cells[path], read_record(path), path) for path in paths]
    assert any(each.found for each in outcomes)
    assert experiment.table(outcomes).rows


def test_frameworks_are_those_of_the_peers_summary(tmp_path):
    outcomes = outcomes_of(Frameworks(), tmp_path)
    ours = {each.cell.network: each.found for each in outcomes if OURS in each.found.ms}
    stored = json.loads(checkout.stored_text("lab/results/peers/summary.json"))
    for standing in (each for each in stored if each["batch"] == 1):
        found = ours.pop(standing["network"])
        assert found.ms[OURS] == pytest.approx(standing["ours_ms"])
        assert found.over_peer == pytest.approx((standing["ratio"], *standing["interval"]))
    assert ours == {}
    table = Frameworks().table(outcomes)
    assert len(table.rows) == len(outcomes)
    assert FRAMEWORKS_MS["inception_v3"] == (7.95, 9.95, 5.70, 4.88, 5.21, 4.03)
    assert [len(panel.series) for panel in Frameworks().panels(outcomes)] == [6, 6]


def test_searches_whose_schedules_did_not_race_have_no_latency():
    folder = RESULTS / "experiments"
    cell, *_ = Pruning().cells(Settings(lanes=2, quick=True))
    path = record_path(folder, Pruning(), cell)
    table = Pruning().table([outcome_of(Pruning(), cell, read_record(path), path)])
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert [row["ms"] == "-" for row in rows] == [row["search"] == "exhaustive" for row in rows]


def test_what_tune_keeps_has_no_search_of_its_own():
    folder = RESULTS / "experiments"
    cell, *_ = Schedules().cells(Settings(lanes=2, quick=True))
    path = record_path(folder, Schedules(), cell)
    table = Schedules().table([outcome_of(Schedules(), cell, read_record(path), path)])
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows[:6]]
    kept = [row["schedule"].startswith("tune: ") for row in rows]
    assert [row["search s"] == "-" for row in rows] == kept == [False] * 5 + [True]


def test_two_by_two_is_of_one_race(tmp_path):
    outcomes = outcomes_of(IntraInter(), tmp_path)
    for each in outcomes:
        first, *others = each.found.ms
        assert each.found.speedups[0] == 1.0
        assert each.found.speedups[1:] == pytest.approx([first / ms for ms in others], rel=0.1)
    assert TUNED_MS["nasnet_large"] == (14.67, 16.04)
    assert len(IntraInter().table(outcomes).rows) == len(outcomes)


@pytest.mark.parametrize("experiment", [Frameworks(), IntraInter()], ids=lambda each: each.name)
def test_committed_records_are_of_the_races_that_are_stored_now(experiment):
    folder = RESULTS / "experiments"
    for cell in experiment.cells(Settings(lanes=2)):
        path = record_path(folder, experiment, cell)
        found = outcome_of(experiment, cell, read_record(path), path).found
        stored = json.loads(checkout.stored_text(found.record))
        assert found.measured_at == stored["taken_at"]


@pytest.mark.parametrize("experiment", [Frameworks(), IntraInter()], ids=lambda each: each.name)
def test_a_race_that_is_not_stored_is_told_how_to_measure_it(experiment, tmp_path):
    cell = checkout.StoredRaceCell.of("lenet", "lenet_bs1.json")
    with pytest.raises(ArtifactError, match=r"lenet_bs1.*measure it with .*lenet"):
        experiment.measure(cell, Bench(folder=tmp_path))
