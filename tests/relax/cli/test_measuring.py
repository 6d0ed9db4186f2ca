"""``--dialect``: which TVM a process imports, tuned and run from a shell."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from tests.relax.onnx_networks import branches, onnx
from tvm_ios.cli import measuring
from tvm_ios.cli.main import main
from tvm_ios.cli.measuring import take_dialect
from tvm_ios.errors import HostError
from tvm_ios.install.finder import CHOICE_VARIABLE
from tvm_ios.runtime.artifact.footer import read_story


@pytest.fixture
def model(tmp_path):
    """A small network in a file."""
    onnx.save(branches(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.mark.slow(20)
def test_a_file_is_tuned_and_run_by_processes_that_nobody_told_their_tvm(
    model, run_python, tmp_path
):
    around = {"TVM_NUM_THREADS": "1", CHOICE_VARIABLE: "auto"}
    words = ["--dialect", "relax", "--lanes", "1", "--effort", "quick", "-o", tmp_path / "net.so"]
    tuned = run_python("-m", "tvm_ios", "tune", model, *words, **around)
    assert tuned.returncode == 0, tuned.stderr
    assert f"wrote {tmp_path / 'net.so'}" in tuned.stdout
    value = np.random.default_rng(1).standard_normal((1, 8, 10, 10)).astype("float32")
    np.savez(tmp_path / "in.npz", x=value)
    files = ["--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz"]
    ran = run_python("-m", "tvm_ios", "run", tmp_path / "net.so", *files, **around)
    assert ran.returncode == 0, ran.stderr
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    wanted = onnxruntime.InferenceSession(model).run(None, {"x": value})[0]
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["output_0"], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tuning", "autotvm"], "--tuning autotvm needs a TVM with Relay"),
        (["--trials", "3"], "--trials 3 needs a TVM with Relay"),
        (["--pad-channels"], "--pad-channels needs a TVM with Relay"),
        (["--mixed-precision"], "mixed_precision=True needs a TVM with Relay"),
    ],
)
def test_what_needs_relay_is_refused_in_one_line(model, tmp_path, words, message, capsys):
    assert main(["tune", str(model), "-o", str(tmp_path / "net.so"), *words]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(f"tvm-ios: error: {message}")
    assert "--dialect relay" in told


@pytest.mark.slow
@pytest.mark.parametrize(("libraries", "calls"), [("none", False), ("onednn", True)])
def test_libraries_are_named_or_left_out(model, tmp_path, libraries, calls):
    words = ["--libraries", libraries, "--effort", "quick", "--lanes", "1"]
    assert main(["tune", str(model), "-o", str(tmp_path / "net.so"), *words]) == 0
    told = read_story(tmp_path / "net.so").schedule.libraries
    assert bool(told) is calls


@pytest.mark.slow
def test_torn_records_of_a_folder_are_told(model, tmp_path, capsys):
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "database_workload.json").write_text("[torn")
    (folder / "database_tuning_record.json").write_text("")
    words = ["--tuning-records", str(folder), "--libraries", "none", "--effort", "quick"]
    assert main(["tune", str(model), *words, "-o", str(tmp_path / "net.so"), "--verbose"]) == 0
    told = capsys.readouterr().out
    assert f"line 1 of database_workload.json in {folder} cannot be read by TVM" in told
    assert "records in force: 0 of " in told


def test_the_dialect_is_that_of_the_tvm_that_would_be_imported(monkeypatch):
    monkeypatch.setenv(CHOICE_VARIABLE, "path")
    assert take_dialect(None) == "relax"
    monkeypatch.delenv(CHOICE_VARIABLE)
    assert take_dialect("relax") == "relax"
    assert measuring.os.environ[CHOICE_VARIABLE] == "path"


def test_a_dialect_that_is_not_there_is_told_with_what_to_run(monkeypatch):
    monkeypatch.setenv(CHOICE_VARIABLE, "path")
    message = f"--dialect relay: the TVM at {tvm.__file__} has Relax; run: tvm-ios install-tvm"
    with pytest.raises(HostError, match=message):
        take_dialect("relay")
    monkeypatch.setattr(measuring, "find_spec", lambda _: None)
    with pytest.raises(HostError, match=r"there is no TVM; run: pip install 'tvm-ios\[relax\]'"):
        take_dialect("relax")
    assert take_dialect(None) == "relay"
