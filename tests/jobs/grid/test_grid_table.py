"""The table of a grid, and the results that it is made of."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from tests.driver.chain.test_run_folder import REPORT
from tvm_ios.errors import ArtifactError
from tvm_ios.jobs.core.trace import Span
from tvm_ios.jobs.grid.cell_result import (
    CellResult,
    JobFacts,
    read_result,
    result_path,
    write_result,
)
from tvm_ios.jobs.grid.grid_file import Cell
from tvm_ios.jobs.grid.grid_table import grid_csv
from tvm_ios.jobs.ledger import CellStatus
from tvm_ios.support.stage_gate import StageKind, StageNeed

CELL = Cell(parameters={"model": "net", "trials": 4, "build.exact": False}, repeat=2, base={})
DONE = CellResult(
    cell_id=CELL.cell_id,
    parameters=CELL.parameters,
    repeat=2,
    status=CellStatus.DONE,
    seconds=12.5,
    taken_at="2026-01-02T03:04:05+00:00",
    commit="abc",
    machine="Mite 3, cores: 2",
    trials=8,
    failures=1,
    report=REPORT,
)
FAILED = replace(DONE, status=CellStatus.FAILED, message="no network, and no file", report=None)


def rows(*results):
    return list(csv.DictReader(io.StringIO(grid_csv(results))))


def test_a_row_has_parameters_times_latency_and_where_it_comes_from():
    (row,) = rows(DONE)
    assert row == {
        "model": "net",
        "trials": "4",
        "build.exact": "False",
        "repeat": "2",
        "status": "done",
        "seconds": "12.500",
        "mean_build_s": "2.000",
        "mean_tune_s": "2.000",
        "mean_waiting_s": "",
        "utilisation": "",
        "latency_ms": "2.000000",
        "latency_low_ms": "1.500000",
        "latency_high_ms": "2.500000",
        "sla_met": "True",
        "candidates": "8",
        "failures": "1",
        "commit": "abc",
        "machine": "Mite 3, cores: 2",
        "message": "",
    }


def test_failed_cells_and_jobs_have_rows_of_the_same_table():
    job = replace(DONE, job=JobFacts(waiting_s=1.25, utilisation=0.5))
    failed, run = rows(FAILED, job)
    assert (failed["status"], failed["message"]) == ("failed", "no network, and no file")
    assert failed["latency_ms"] == failed["mean_build_s"] == ""
    assert (run["mean_waiting_s"], run["utilisation"]) == ("1.250", "0.500")


@pytest.mark.parametrize(
    "result", [DONE, FAILED, replace(DONE, job=JobFacts(waiting_s=1.0, utilisation=0.5))]
)
def test_results_are_read_back(result, tmp_path):
    assert read_result(tmp_path, CELL) is None
    write_result(tmp_path, CELL, result)
    assert read_result(tmp_path, CELL) == result


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 7}, "version 7, this tvm-ios reads 1; delete it, and run the grid again"),
        ({"status": "late"}, "status is 'late'; expected one of 'done', 'failed'"),
        ({"report": {"version": 1}}, "lacks the field 'run_id'"),
        ({"job": {"waiting_s": 1}}, "lacks the field 'utilisation'"),
    ],
)
def test_a_damaged_result_is_refused_with_its_file(change, told, tmp_path):
    path = result_path(tmp_path, CELL)
    path.write_text(json.dumps(json.loads(DONE.to_json()) | change))
    with pytest.raises(ArtifactError, match=f"{path.name}: .*{told}"):
        read_result(tmp_path, CELL)


def span(kind, asked_s, granted_s, ended_s):
    return Span(
        job="a",
        epoch=1,
        need=StageNeed(kind=kind),
        device="",
        asked_s=asked_s,
        granted_s=granted_s,
        ended_s=ended_s,
        places=(),
    )


def test_facts_of_a_job_are_means_of_its_stages():
    prepared = span(StageKind.PREPARE, 10.0, 10.0, 14.0)
    profiled = span(StageKind.PROFILE, 14.0, 17.0, 20.0)
    facts = JobFacts.of_spans([prepared, profiled])
    assert (facts.waiting_s, facts.utilisation) == (1.5, 0.3)
    assert JobFacts.of_spans([]) == JobFacts(waiting_s=0.0, utilisation=0.0)
