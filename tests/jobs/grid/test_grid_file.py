"""Grid files: their cells, and everything that is refused before a cell runs."""

from __future__ import annotations

import pytest

from tvm_ios.driver.config import TuneConfig
from tvm_ios.errors import OptionError
from tvm_ios.jobs.core.policies import PolicyName
from tvm_ios.jobs.core.resources import DeviceKind
from tvm_ios.jobs.grid.cell_job import cell_order, grid_machine
from tvm_ios.jobs.grid.grid_file import GridFile
from tvm_ios.jobs.state_folder import StateFolder

GRID = """
repeats = 2

[grid]
model = ["squeezenet", "net.json"]
tuner = ["none", "autotvm"]
trials = [4]
"search.max_group_size" = [2, 3]

[base]
time_budget = 60
tuning = {number = 1}
"""


def write(tmp_path, text, name="grid.toml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def config_of(cell, tracker=None):
    return TuneConfig.of_tables(cell.tables_with(tracker))


def test_cells_are_the_product_and_repeats_come_one_after_another(tmp_path):
    grid = GridFile.load(write(tmp_path, GRID))
    cells = grid.cells()
    assert len(cells) == 2 * 2 * 2 * 2
    assert [cell.repeat for cell in cells] == [1] * 8 + [2] * 8
    assert [dict(cell.parameters) for cell in cells[:2]] == [
        {"model": "squeezenet", "tuner": "none", "trials": 4, "search.max_group_size": size}
        for size in (2, 3)
    ]
    assert cells[0].as_text() == (
        "model=squeezenet tuner=none trials=4 search.max_group_size=2 repeat 1"
    )
    assert grid.results == tmp_path / "grid.results"


def test_a_cell_has_the_base_with_its_values_over_it(tmp_path):
    grid = GridFile.load(write(tmp_path, GRID))
    first, tuned = grid.cells()[0], grid.cells()[2]
    assert tuned.tables == {
        "time_budget": 60,
        "tuning": {"number": 1, "backend": "autotvm", "trials": 4},
        "search": {"max_group_size": 2},
    }
    config = config_of(tuned)
    assert (config.tuning, config.options.kernels.trials, config.time_budget) == ("autotvm", 4, 60)
    assert config_of(first).tuning is None
    assert grid.base == {"time_budget": 60, "tuning": {"number": 1}}  # and is left as it was


def test_the_base_may_be_a_file_and_tables_may_be_nested(tmp_path):
    write(tmp_path, "[compare]\nrounds = 7\n", "base.toml")
    text = 'base = "base.toml"\n[grid]\nmodel = "squeezenet"\n[grid.compare]\nlongest_s = [1, 2]\n'
    cells = GridFile.load(write(tmp_path, text)).cells()
    compare = [config_of(cell).options.compare for cell in cells]
    assert [(each.rounds, each.longest_s) for each in compare] == [(7, 1), (7, 2)]


def test_cells_may_differ_in_effort(tmp_path):
    text = "[grid]\nmodel = 'squeezenet'\neffort = ['quick', 'thorough']\n"
    quick, thorough = map(config_of, GridFile.load(write(tmp_path, text)).cells())
    assert quick.options.search.list_only
    assert (quick.tuning, thorough.tuning) == (None, "autotvm")
    with pytest.raises(OptionError, match="effort is 'fast'; choose from 'quick'"):
        GridFile.load(write(tmp_path, text.replace("quick", "fast")))


def test_a_cell_keeps_its_name_when_the_grid_grows(tmp_path):
    before = GridFile.load(write(tmp_path, GRID)).cells()
    grown = GRID.replace("[2, 3]", "[1, 2, 3]").replace("repeats = 2", "repeats = 3")
    after = GridFile.load(write(tmp_path, grown)).cells()
    names = {cell.cell_id for cell in after}
    assert len(names) == len(after)
    assert {cell.cell_id for cell in before} < names
    # Another base makes another cell of it.
    other = GridFile.load(write(tmp_path, GRID.replace("number = 1", "number = 2"))).cells()
    assert names.isdisjoint(cell.cell_id for cell in other)


def test_a_cell_has_a_name_for_files_and_jobs_whatever_its_model_is_called(tmp_path):
    text = "[grid]\nmodel = ['-my net (2).onnx', '" + "long" * 40 + ".onnx']\n"
    grid = GridFile.load(write(tmp_path, text))
    odd, long = grid.cells()
    assert odd.cell_id.startswith("_my_net__2_-")
    assert len(long.cell_id) < 100
    for cell in (odd, long):
        cell_order(grid, cell, StateFolder(tmp_path), None)


def test_cells_run_one_by_one_or_as_a_scheduler_says(tmp_path):
    text = "[grid]\nmodel = ['squeezenet']\ntarget = ['llvm', 'cuda']\n"
    grid = GridFile.load(write(tmp_path, text))
    assert grid.scheduler.limits.max_active == 1
    machine = grid_machine(grid, grid.cells(), None)
    assert [device.kind for device in machine.devices] == [DeviceKind.CORE, DeviceKind.GPU]
    core = machine.cores[0]
    given = f"[scheduler]\npolicy = 'longest'\n[[device]]\nname = 'a'\ncore = {core}\n"
    grid = GridFile.load(write(tmp_path, text + given))
    assert (grid.scheduler.policy, grid.scheduler.limits.max_active) == (PolicyName.LONGEST, 4)
    machine = grid_machine(grid, grid.cells(), None)
    assert [device.name for device in machine.devices] == ["a", "gpu0"]


def test_boards_are_one_device_each(tmp_path):
    text = "servers = 2\n[grid]\nmodel = ['squeezenet']\n[base.device]\nrpc_key = 'pi'\n"
    grid = GridFile.load(write(tmp_path, text))
    devices = grid_machine(grid, grid.cells(), "127.0.0.1:9190").devices
    assert [(device.name, device.address) for device in devices] == [
        ("pi-1", "127.0.0.1:9190:pi"),
        ("pi-2", "127.0.0.1:9190:pi"),
    ]
    (cell,) = grid.cells()
    order = cell_order(grid, cell, StateFolder(tmp_path), "127.0.0.1:9190")
    assert (order.spec.kind, order.spec.key) == (DeviceKind.RPC, "pi")


def test_a_key_of_devices_without_a_tracker_wants_servers(tmp_path):
    text = '[grid]\nmodel = ["squeezenet"]\n[base.device]\nrpc_key = "cpu"\n'
    (cell,) = GridFile.load(write(tmp_path, text)).cells()
    assert cell.wants_device
    assert config_of(cell, "127.0.0.1:7").options.device.rpc_tracker == "127.0.0.1:7"
    there = text + 'rpc_tracker = "10.0.0.1:9190"\n'
    (cell,) = GridFile.load(write(tmp_path, there)).cells()
    assert not cell.wants_device
    assert config_of(cell, "127.0.0.1:7").options.device.rpc_tracker == "10.0.0.1:9190"


def test_model_files_lie_beside_the_grid(tmp_path):
    grid = GridFile.load(write(tmp_path, GRID))
    assert grid.model_path("squeezenet") == "squeezenet"
    model = write(tmp_path, "{}", "net.json")
    assert grid.model_path("net.json") == str(model)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[grid", "grid.toml: this is no TOML"),
        ("a" + ".a" * 20_000 + " = 1", "a key of more than 100 dots"),
        ("grid" + ".a" * 40 + " = 1", "nested more than 32 deep"),
        ("repeats = 2", r"has no models; add \[grid\]"),
        ("[grid]\nlanes = [1]", r"has no models"),
        ("repeat = 2\n[grid]\nmodel = 'a'", "has no key 'repeat'; there are base"),
        ("repeat = 2\n[grid]\nmodel = 'a'", "; did you mean 'repeats'"),
        ("[grid]\nmodel = 'a'\ntrails = [1]", "; did you mean 'trials'"),
        ("repeats = 0\n[grid]\nmodel = 'a'", "repeats is 0; give a whole number of 1 or more"),
        (
            "repeats = 5001\n[grid]\nmodel = ['a', 'b']",
            "has 10002 cells, more than 10000; leave out",
        ),
        ("servers = 0\n[grid]\nmodel = 'a'", "servers is 0"),
        ("shared_cache = 1\n[grid]\nmodel = 'a'", "shared_cache is 1; give true or false"),
        ("cell_timeout_s = 0\n[grid]\nmodel = 'a'", "cell_timeout_s is 0; give seconds"),
        ("[grid]\nmodel = []", r"\[grid\] model is an empty list"),
        ("[grid]\nmodel = ['a', 'a']", "model has a value twice; repeats says"),
        ("[grid]\nmodel = [['a']]", r"model has \['a'\]; give strings"),
        ("[grid]\nmodel = [1]", r"\[grid\] model has 1; give strings"),
        ("[grid]\nmodel = 'a'\nlanes = [0]", "lanes is 0; give a whole number"),
        ("[grid]\nmodel = 'a'\npolicy = ['fifo']", r"\[grid\] has no key 'policy'; there are"),
        ("[grid]\nmodel = 'a'\ntuner = ['ansor']", "backend is 'ansor'; choose from none"),
        ("[grid]\nmodel = 'a'\n'tuning.trails' = [1]", "'trails', did you mean 'trials'"),
        ("[grid]\nmodel = 'a'\n'tunning.trials' = [1]", "'tunning', did you mean 'tuning'"),
        (
            "[grid]\nmodel = 'a'\ntrials = [1]\n'tuning.trials' = [2]",
            "has 'trials' and 'tuning.trials', which are one key",
        ),
        ("[grid]\nmodel = 'a'\ntrials = [0]", r"\[tuning\] trials is 0"),
        ("[grid]\nmodel = 'a'\nbatch_size = [0]", "batch_size is 0; give a whole number"),
        ("[grid]\nmodel = 'a'\ninput_shapes = ['x']", "--input-shapes has 'x'; give such as"),
        ("[grid]\nmodel = 'a'\nsla_ms = [1]", "sla_ms is for cells that are tuned"),
        ("base = 'no.toml'\n[grid]\nmodel = 'a'", "base: cannot read .*no.toml"),
        ("base = 3\n[grid]\nmodel = 'a'", "base is 3; give a file"),
        ("scheduler = 3\n[grid]\nmodel = 'a'", "scheduler is 3"),
        ("scheduler = {policy = 'best'}\n[grid]\nmodel = 'a'", r"\[scheduler\] policy is 'best'"),
        ("scheduler = {executor = 'ray'}\n[grid]\nmodel = 'a'", "cells run on this machine"),
        ("device = [{core = 0}]\n[grid]\nmodel = 'a'", r"a \[\[device\]\] has the name None"),
        ("[base]\nsearch = 3\n[grid]\nmodel = 'a'\n'search.s' = [1]", "search is 3 in the base"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_file(tmp_path, text, told):
    with pytest.raises(OptionError, match=told) as refused:
        GridFile.load(write(tmp_path, text))
    assert str(refused.value).startswith(f"{tmp_path / 'grid.toml'}: ")


def test_a_missing_grid_is_refused(tmp_path):
    with pytest.raises(OptionError, match="cannot read the grid .*; give a TOML file"):
        GridFile.load(tmp_path / "none.toml")
