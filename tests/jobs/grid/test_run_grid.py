"""Grids that run: cells as jobs, killed and gone on with, beside each other, here and over RPC."""

from __future__ import annotations

import csv
import io
import os
import signal
import subprocess
import sys
import time

import pytest
import tvm

from tvm_ios.cli.main import main
from tvm_ios.jobs.grid import run_grid as room
from tvm_ios.jobs.grid.cell_job import cell_order
from tvm_ios.jobs.grid.cell_result import read_result
from tvm_ios.jobs.grid.grid_file import GridFile
from tvm_ios.jobs.ledger import CellStatus
from tvm_ios.jobs.state_folder import StateFolder

pytestmark = pytest.mark.slow  # each cell is a process that loads TVM

BASE = """
shared_cache = true
[grid]
model = {models}
target = "llvm -mcpu=core-avx2 -opt-level=0"
lanes = 1
[base]
build = {{pad_channels = false, libraries = []}}
measure = {{repeat = 2, max_repeat = 2, min_repeat_ms = 0.05}}
compare = {{rounds = 6, min_repeat_ms = 0.5}}
"""
PATIENCE_S = 120.0


@pytest.fixture
def grid_of(fork, tmp_path):
    """Writes a grid of these models beside the network ``net.json``."""
    mod, params = fork
    (tmp_path / "net.json").write_text(tvm.ir.save_json(mod))
    (tmp_path / "net.params").write_bytes(tvm.runtime.save_param_dict(params))

    def write(*models, more=""):
        path = tmp_path / "small.toml"
        path.write_text(BASE.format(models=list(models)) + more)
        return path

    return write


def table_of(path, capsys):
    capsys.readouterr()
    assert main(["grid", "table", str(path)]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_cells_run_fail_and_are_known_afterwards(grid_of, capsys, monkeypatch, tmp_path):
    path = grid_of("nowhere", "net.json")
    assert main(["grid", "run", str(path)]) == 1
    said = capsys.readouterr().out
    assert "[1/2] model=nowhere" in said
    assert "failed: there is no network and no file named 'nowhere'" in said
    failed, done = table_of(path, capsys)
    assert (failed["status"], done["status"]) == ("failed", "done")
    assert "no network and no file named 'nowhere'" in failed["message"]
    assert float(done["latency_low_ms"]) <= float(done["latency_ms"])
    assert float(done["mean_search_s"]) > 0
    assert float(done["seconds"]) > float(done["mean_search_s"])
    assert (done["candidates"], done["failures"], done["mean_waiting_s"]) == ("0", "0", "0.000")
    assert 0 < float(done["utilisation"]) < 1
    assert done["machine"].endswith(f"cores: {len(os.sched_getaffinity(0))}")
    assert failed["mean_waiting_s"] == failed["utilisation"] == ""
    # Nothing of the work is left but what is told of a failure.
    results = tmp_path / "small.results"
    assert list((results / "jobs").glob("**/*.sqlite*")) == []
    assert not (results / "jobs" / "work").exists()
    (said,) = results.glob("nowhere*.txt")
    assert "there is no network" in said.read_text()
    # Cells that are over start no process; failed ones do where asked to.
    monkeypatch.setattr(room, "_run", lambda *_: pytest.fail("a cell was run again"))
    assert main(["grid", "run", str(path)]) == 1
    assert capsys.readouterr().out.count("(known)") == 2

    def again(grid, cells, begun, over):
        assert [cell.parameters["model"] for cell in cells] == ["nowhere"]
        begun(cells[0])
        over(cells[0], read_result(grid.results, cells[0]))

    monkeypatch.setattr(room, "_run", again)
    assert main(["grid", "run", "--retry", str(path)]) == 1
    assert "[1/2] model=nowhere" in capsys.readouterr().out
    out = tmp_path / "table.csv"
    assert main(["grid", "table", str(path), "--output", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 3


def test_an_interrupted_grid_says_what_goes_on(grid_of, tmp_path, monkeypatch):
    path = tmp_path / "my grid.toml"
    grid_of("nowhere").rename(path)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(room, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt) as ended:
        main(["--debug", "grid", "run", "--retry", str(path)])
    (note,) = ended.value.__notes__
    assert note.endswith(f"to go on, run: tvm-ios grid run --retry '{path}'")


@pytest.mark.usefixtures("hears_ctrl_c")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_grid_goes_on(grid_of, ending, tmp_path, project_root):
    path = grid_of("nowhere", "net.json")
    first, second = GridFile.load(path).cells()
    folder = GridFile.load(path).results
    running = subprocess.Popen(
        [sys.executable, "-m", "tvm_ios", "grid", "run", str(path)],
        env=os.environ | {"PYTHONPATH": str(project_root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = folder / "jobs" / "work" / second.cell_id / "log.txt"
    wait_until(log.exists)
    wait_until(lambda: read_result(folder, first))
    (cell,) = wait_until(lambda: workers(running.pid))
    os.kill(running.pid, ending)
    _, said = running.communicate(timeout=PATIENCE_S)
    wait_until(lambda: not alive(cell))  # nobody writes into the folder any more
    assert read_result(folder, first).status is CellStatus.FAILED
    assert read_result(folder, second) is None
    if ending is signal.SIGINT:
        assert running.returncode == 130
        assert f"1 of 2 cells are over; to go on, run: tvm-ios grid run {path}" in said
        return
    kept = (folder / f"{first.cell_id}.json").stat().st_mtime_ns
    assert main(["grid", "run", str(path)]) == 1
    assert (folder / f"{first.cell_id}.json").stat().st_mtime_ns == kept
    assert read_result(folder, second).status is CellStatus.DONE


@pytest.mark.usefixtures("planted_folder")
def test_a_cell_is_tuned_on_servers_that_the_grid_starts(grid_of, capsys, tmp_path):
    before = set(commands_of_children())  # other tests keep a tracker
    path = grid_of(
        "net.json",
        more='device = {rpc_key = "ours"}\n'
        'tuning = {backend = "autotvm", trials = 1, number = 1, repeat = 1, min_repeat_ms = 0}\n',
    )
    assert main(["grid", "run", str(path)]) == 0, capsys.readouterr().out
    (row,) = table_of(path, capsys)
    assert (row["status"], row["candidates"]) == ("done", "3")
    assert float(row["mean_tune_s"]) > 0
    (cell,) = GridFile.load(path).cells()
    log = tmp_path / "small.results" / f"{cell.cell_id}.log"
    assert len(log.read_text().splitlines()) == 3
    new = set(commands_of_children()) - before
    assert not any("rpc_tracker" in command for command in new)


def test_a_cell_that_takes_too_long_is_ended(grid_of, tmp_path, capsys):
    # The watch looks once a second; tuning takes longer than that on every machine.
    path = grid_of("net.json", more='tuning = {backend = "autotvm", trials = 500}\n')
    path.write_text("cell_timeout_s = 0.2\n" + path.read_text())
    assert main(["grid", "run", str(path)]) == 1
    (row,) = table_of(path, capsys)
    assert row["message"] == "ended after cell_timeout_s = 0.2 s"


def test_cells_run_beside_each_other_where_a_scheduler_is_asked_for(grid_of, fresh_cache, capsys):
    path = grid_of("net.json")
    apart = path.read_text().replace("shared_cache = true", "shared_cache = false")
    path.write_text('repeats = 2\nscheduler = {policy = "slack", max_active = 2}\n' + apart)
    assert main(["grid", "run", str(path)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.endswith("...") for line in told[:4]] == [True, True, False, False]
    assert [row["status"] for row in table_of(path, capsys)] == ["done", "done"]
    # Each had a cache of its own, which has gone with it.
    assert not [path for path in fresh_cache.iterdir() if not path.is_symlink()]


@pytest.mark.parametrize("shared", ["true", "false"])
def test_a_cell_has_a_cache_of_its_own_unless_they_share(grid_of, shared, tmp_path):
    path = grid_of("net.json")
    path.write_text(path.read_text().replace("shared_cache = true", f"shared_cache = {shared}"))
    grid = GridFile.load(path)
    (cell,) = grid.cells()
    work = cell_order(grid, cell, StateFolder(tmp_path), None).work
    own = tmp_path / "work" / cell.cell_id
    assert work.cache == ("" if shared == "true" else str(own / "cache"))
    assert work.records == str(own / "records.log")


def test_a_second_process_at_one_grid_is_refused(grid_of, capsys):
    path = grid_of("net.json")
    with room._only_one(GridFile.load(path)):
        assert main(["grid", "run", str(path)]) == 2
    assert "another process runs the grid" in capsys.readouterr().err


def test_a_table_of_nothing_is_refused(grid_of, capsys):
    assert main(["grid", "table", str(grid_of("net.json"))]) == 2
    assert "there are no results" in capsys.readouterr().err


def wait_until(holds):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def workers(pid):
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if "local.worker" in line]


def commands_of_children():
    listed = subprocess.run(
        ["ps", "-o", "args=", "--ppid", str(os.getpid())],
        capture_output=True,
        text=True,
        check=False,
    )
    return listed.stdout.splitlines()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
