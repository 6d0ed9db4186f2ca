"""The table of Ansor's artifact: which contestant of a race stands where, and what is published."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.tests.papers.peer_races import raced_peers
from tests.onnx_models import write_two_ways
from tvm_ios.errors import ArtifactError, HostError
from tvm_ios.jobs.jobs_file import read_jobs_file
from tvm_ios.tuning.guard import MARK, marked_processes
from tvm_ios_lab.harness.checkout import stored_digest
from tvm_ios_lab.harness.peers import KernelRecipe, PeerGroup, PeerRace
from tvm_ios_lab.harness.protocol import Outcome, Settings
from tvm_ios_lab.papers.ansor import (
    COMMITTED_LOG,
    PUBLISHED_MS,
    PUBLISHED_OVER,
    Ansor,
    raced_network,
)
from tvm_ios_lab.peers.import_onnx import main as import_onnx
from tvm_ios_lab.places import ROOT

OURS = {
    "tvm sequential": 4.0,
    "tvm ios": 3.0,
    "ansor sequential": 2.5,
    "ansor ios, untuned kernels": 0.5,
    "onednn sequential": 2.0,
    "onednn greedy": 0.5,
    "onednn ios + list": 1.0,
}
TORCH = {
    "torch, 1 thread": 9.0,
    "torch channels last, 2 threads": 5.0,
    "torch compile, 2 threads": 2.0,
}


def raced(torch, left_out=()):
    ours = {f"tvm-ios {name}, 2 threads": ms for name, ms in OURS.items()}
    report = "x\nrecords in force: 24 of 26 kernels (log)\ny"
    return raced_peers(torch, ours, left_out, {"tune's report on kernels ansor": report})


def outcome(found, network="dcgan", batch=1):
    cells = {(c.network, c.run.batch): c for c in Ansor().cells(Settings(lanes=2))}
    return Outcome(cell=cells[network, batch], found=found)


def test_the_better_pytorch_is_beaten_by_the_best_of_ours():
    found = raced_network(raced(TORCH))
    assert found.ms == {
        "PyTorch": 5.0,
        "torch.compile": 2.0,
        "TVM, in order": 4.0,
        "TVM, IOS": 3.0,
        "Ansor, in order": 2.5,
        "Ansor, IOS": 2.5,
        "oneDNN, in order": 2.0,
        "oneDNN, IOS": 1.0,
    }
    assert (found.best, found.same, found.records) == ("oneDNN, IOS", ("Ansor, IOS",), "24 of 26")
    assert found.over_torch == (2.0, 2.0, 2.0)


def test_rows_have_the_published_numbers_and_the_last_one_the_mean():
    found = raced_network(raced(TORCH))
    slower = replace(found, over_torch=(0.5, 0.5, 0.5))
    table = Ansor().table([outcome(found), outcome(slower, "bert_base", 16)])
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert rows[0]["Ansor, IOS ms"] == "=2.500"
    assert rows[0]["over PyTorch"] == "2.00 (2.00-2.00)"
    assert rows[0]["published Ansor over PyTorch (18 cores)"] == "14.47"
    assert rows[1]["published PyTorch ms (18 cores)"] == "254.32"
    assert rows[2]["over PyTorch"] == "1.00; at least 1.00 in 1 of 2 rows"
    panels = Ansor().panels([outcome(found)])
    assert [panel.title.split(",")[0] for panel in panels] == ["Batch 1", "Batch 1", "Batch 16"]
    assert panels[0].series[-1].values == (1.0,)


def test_a_row_that_was_raced_with_another_log_says_so():
    found = raced_network(raced(TORCH))
    now = replace(found, log_digest=stored_digest(COMMITTED_LOG))
    table = Ansor().table([outcome(found), outcome(replace(found, log_digest="0")), outcome(now)])
    records = [row[table.header.index("Ansor's records")] for row in table.rows[:3]]
    assert records == ["24 of 26 (unknown log)", "24 of 26 (another log)", "24 of 26"]
    tuned, *_ = Ansor().cells(Settings(lanes=2, tune=True))
    assert tuned.source.remark(found.log_digest, COMMITTED_LOG) == ""


def test_the_artifacts_speedups_are_its_own():
    # As its README prints them; each within rounding of its cells.
    assert list(PUBLISHED_OVER) == list(PUBLISHED_MS)
    for cell, (torch_ms, ansor_ms) in PUBLISHED_MS.items():
        assert torch_ms / ansor_ms == pytest.approx(PUBLISHED_OVER[cell], abs=0.05)


def test_without_pytorch_we_are_measured_all_the_same():
    found = raced_network(raced({}, ("no other framework on this machine; give --peers-python",)))
    assert (found.over_torch, found.best) == (None, "oneDNN, IOS")
    table = Ansor().table([outcome(found)])
    (row,) = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert (row["PyTorch ms"], row["over PyTorch"]) == ("-", "-")
    assert row["left out"] == "no other framework on this machine; give --peers-python"


def test_cells_are_ten_and_quick_ones_the_first_five():
    all_cells = Ansor().cells(Settings(lanes=2))
    assert [(c.network, c.run.batch) for c in all_cells] == sorted(
        PUBLISHED_MS, key=lambda each: each[1]
    )
    assert Ansor().cells(Settings(lanes=2, quick=True)) == all_cells[:5]
    assert not set(all_cells) & set(Ansor().cells(Settings(lanes=2, peers=True)))
    assert {c.source.trials for c in Ansor().cells(Settings(lanes=2, tune=True))} == {2000}


def race_of(tmp_path, **changes):
    race = PeerRace(
        network="randwire_small",
        batch=1,
        lanes=1,
        rounds=6,
        folder=tmp_path,
        against=None,
        peers_python=None,
        limit_s=600.0,
    )
    return replace(race, **changes)


@pytest.mark.slow
def test_a_program_that_takes_too_long_or_is_not_there_is_named(tmp_path):
    with pytest.raises(
        HostError, match=r"export of randwire_small at batch 1 took longer than 0 s"
    ):
        race_of(tmp_path, limit_s=0.01).run({})
    folder = tmp_path / "networks" / "randwire_small_bs1"
    folder.mkdir(parents=True)
    (folder / "network.json").touch()
    with pytest.raises(HostError, match="nothing of ours was built .* not the description"):
        race_of(tmp_path).run({"tvm": KernelRecipe(text="")})


def test_we_and_the_peers_have_the_same_lanes(tmp_path, monkeypatch):
    said = {}

    def noted(self, program, python, words, **_):
        said[program] = (python, " ".join(words))
        return []

    monkeypatch.setattr(PeerRace, "_run", noted)
    folder = tmp_path / "networks" / "randwire_small_bs1"
    (folder / "ours").mkdir(parents=True)
    (folder / "network.json").touch()
    (folder / "ours" / "tvm.json").write_text('{"configuration": "", "builds": [{"lanes": 1}]}')
    against = PeerGroup(ways=("torch",))
    race = race_of(tmp_path, against=against, peers_python=tmp_path / "python")
    with pytest.raises(ArtifactError, match="measure it again"):
        race.run({"tvm": KernelRecipe(text="")})
    assert list(said) == ["ours", "measure"]
    assert all("--lanes 1" in words for _, words in said.values())
    assert said["measure"][0] == str(tmp_path / "python")
    assert said["measure"][1].endswith("--peers torch tvm-ios")


def test_a_program_that_is_killed_is_no_program_that_found_nothing(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho progress >&2\nkill -9 $$\n")
    python.chmod(0o755)
    race = race_of(tmp_path)
    assert race._run("ours", str(python), (), may_fail=True) == ["ours ended with -9: progress"]
    with pytest.raises(HostError, match="measure of randwire_small .* ended with -9: progress"):
        race._run("measure", str(python), ())


@pytest.mark.slow
def test_nothing_outlives_a_program_that_takes_too_long(tmp_path):
    told = tmp_path / "mark"
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nsleep 600 &\necho ${MARK} > {told}\nwait\n")
    python.chmod(0o755)
    with pytest.raises(HostError, match="measure of randwire_small .* longer than 2 s"):
        race_of(tmp_path, limit_s=2.0)._run("measure", str(python), ())
    mark = told.read_text().strip()
    assert mark
    assert not marked_processes(mark)


@pytest.mark.slow
def test_a_network_is_built_and_raced(tmp_path):
    networks = tmp_path / "networks"
    place = ("--folder", str(networks), "--input-shapes", "x:[1,8,6,6]")
    assert import_onnx((f"ways={write_two_ways(tmp_path)}", *place)) == 0
    hasty = KernelRecipe(text="time_budget = 5\n\n[search]\nmax_group_size = 1\n")
    recipes = {"tvm": hasty, "ansor": replace(hasty, log=tmp_path / "no.log")}
    found = race_of(tmp_path, network="ways").run(recipes)
    assert any("no other framework" in line for line in found.left_out)
    assert any("no.log" in line for line in found.left_out)
    network = raced_network(found)
    assert network.ms["TVM, in order"] > 0
    assert network.over_torch is None
    assert len(network.race.used_rounds) >= 6
    assert list(networks.iterdir()) == []


@pytest.mark.parametrize("name", ["ansor", "ansor_quick"])
def test_jobs_that_tune_the_networks_can_be_ordered(name):
    found = read_jobs_file(ROOT / "lab" / "records" / f"{name}.toml")
    rows = {(order.spec.model, order.work.batch_size) for order in found.orders}
    assert len(rows) == len(found.orders)
    assert rows <= set(PUBLISHED_MS)
    assert name == "ansor_quick" or rows == set(PUBLISHED_MS)
