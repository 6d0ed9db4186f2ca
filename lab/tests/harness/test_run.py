"""Experiments go on where they stopped, say why a cell failed, and write table, figure and JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from tvm_ios.errors import ArtifactError, CostError
from tvm_ios.measure.comparison import CompareRound, Comparison
from tvm_ios_lab.figures.chart import Bars, Series
from tvm_ios_lab.harness.protocol import Bench, Settings, table_of
from tvm_ios_lab.harness.run import forget_cells, run_experiment
from tvm_ios_lab.papers.registry import EXPERIMENTS


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberCell:
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    square: int
    samples: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Squares:
    """Experiment that squares numbers; minus one it refuses."""

    numbers: tuple[int, ...] = (2, -1, 3)
    measured: list[int]
    name: str = "squares"
    title: str = "Squares"
    published: str = "Euclid"
    notes: tuple[str, ...] = ("All of them whole.",)
    found_kind: type[Square] = Square

    def cells(self, _):
        return tuple(NumberCell(number=number) for number in self.numbers)

    def measure(self, cell, _):
        self.measured.append(cell.number)
        if cell.number == -1:
            raise CostError("-1 is no length; give a length")
        return Square(square=cell.number**2, samples=(0.5, 1))

    def table(self, outcomes):
        return table_of(
            ("number", "square"), outcomes, lambda c, f: [(str(c.number), str(f.square))]
        )

    def panels(self, outcomes):
        values = tuple(each.found and float(each.found.square) for each in outcomes)
        groups = tuple(str(each.cell.number) for each in outcomes)
        series = (Series(name="ours", values=values),)
        return (Bars(title="Squares", y_label="square", groups=groups, series=series),)


def run(experiment, folder, **options):
    options = {"command": "squares", **options}
    return run_experiment(experiment, Settings(lanes=1), Bench(folder=folder), **options)


def test_a_failed_cell_says_why_and_leaves_the_others(tmp_path):
    done = run(Squares(measured=[]), tmp_path)
    assert done.failed == 1
    assert done.table.header == ("number", "square", "remark")
    assert done.table.rows == (
        ("2", "4", ""),
        ("3", "9", ""),
        ("-1", "-", "failed: -1 is no length; give a length"),
    )
    page = (tmp_path / "squares" / "table.md").read_text()
    for words in (
        "Published: Euclid",
        "All of them whole.",
        "`squares`",
        "1 of 3 cells failed",
        "--retry",
    ):
        assert words in page
    assert (tmp_path / "squares" / "figure.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads(json.dumps(done.as_record()))
    assert record["cells"][0]["found"] == {"square": 4, "samples": [0.5, 1]}


def test_what_races_say_of_themselves_stands_below_the_table(tmp_path):
    once = CompareRound(run_ns=(1.0,), ping_pong_ns=9.0, slow=True)
    race = Comparison(names=("a",), rounds=(once,), confidence=0.95, notes=("it was busy",))
    done = run(Squares(numbers=(2, 3), measured=[]), tmp_path)
    busy, quiet = done.outcomes
    raced = replace(busy, found=SimpleNamespace(square=4, race=race))
    assert "\n2: it was busy.\n" in replace(done, outcomes=(raced, quiet)).as_text()
    assert "3: " not in replace(done, outcomes=(raced, quiet)).as_text()


def test_the_page_names_the_commands_that_made_its_cells(tmp_path):
    run(Squares(numbers=(2,), measured=[]), tmp_path)
    options = {"command": "squares --time-budget 60"}
    done = run(Squares(numbers=(2, 3), measured=[]), tmp_path, **options)
    assert "\nMade by `squares` and `squares --time-budget 60` on " in done.as_text()


@pytest.mark.slow
def test_known_cells_are_not_measured_again(tmp_path):
    first = run(Squares(measured=[]), tmp_path)
    for options, measured in (({}, []), ({"retry": True}, [-1])):
        again = Squares(measured=[])
        assert run(again, tmp_path, **options).table == first.table
        assert again.measured == measured
    forget_cells(Squares(numbers=(2,), measured=[]), Settings(lanes=1), tmp_path)
    again = Squares(measured=[])
    assert run(again, tmp_path).table == first.table
    assert again.measured == [2]
    more = Squares(numbers=(2, 3, 4), measured=[])
    assert run(more, tmp_path).failed == 0
    assert more.measured == [4]


def test_a_record_that_cannot_be_read_is_named(tmp_path):
    run(Squares(measured=[]), tmp_path)
    path = next((tmp_path / "squares" / "cells").glob("2-*.json"))
    path.write_text(path.read_text().replace('"square": 4', '"square": "four"'))
    with pytest.raises(ArtifactError, match=rf"{path.name}: found.square is .*delete that file"):
        run(Squares(measured=[]), tmp_path)
    path.write_text("{")
    with pytest.raises(ArtifactError, match=f"{path.name}: .*delete that file"):
        run(Squares(measured=[]), tmp_path)
    forget_cells(Squares(measured=[]), Settings(lanes=1), tmp_path)
    assert run(Squares(measured=[]), tmp_path).failed == 1


KILLED = """
import sys, time
from pathlib import Path
from tvm_ios_lab.harness.run import run_experiment
from tvm_ios_lab.harness.protocol import Bench, Settings
sys.path.insert(0, sys.argv[2])
from lab.tests.harness.test_run import Squares
class Slow(Squares):
    def measure(self, cell, bench):
        if cell.number == 3:
            Path(sys.argv[1], "begun").touch()
            time.sleep(600)
        return Squares.measure(self, cell, bench)
run_experiment(Slow(measured=[]), Settings(lanes=1), Bench(folder=Path(sys.argv[1])), command="s")
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["killed", "Ctrl-C"])
def test_what_was_measured_before_the_end_is_kept(tmp_path, project_root, how):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path), str(project_root)],
        env={**os.environ, "PYTHONPATH": str(project_root)},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    assert how is signal.SIGKILL or "2 of 3 cells are over; to go on, run: s" in said
    rest = Squares(measured=[])
    assert run(rest, tmp_path).failed == 1
    assert rest.measured == [3]


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
def test_every_experiment_shows_cells_that_failed(experiment, tmp_path):
    from tvm_ios_lab.harness.protocol import Outcome, cell_title

    for quick in (True, False):
        cells = experiment.cells(Settings(lanes=2, quick=quick))
        assert len(set(cells)) == len(cells)
        outcomes = [Outcome(cell=cell, found=None, why=f"why {n}") for n, cell in enumerate(cells)]
        table = experiment.table(outcomes)
        said = {(row[0], row[-1]) for row in table.rows}
        for number, cell in enumerate(cells):
            assert (cell_title(cell), f"failed: why {number}") in said
        experiment.panels(outcomes)
