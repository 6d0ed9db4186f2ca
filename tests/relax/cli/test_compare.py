"""``tvm-ios compare`` of a file of Relax with one of Relay: each in a process with its TVM."""

from __future__ import annotations

import json

import pytest

import tvm_ios
from tests.relax.networks import TARGET
from tests.relax.onnx_networks import branches, onnx
from tvm_ios.cli.main import main
from tvm_ios.driver.races.file_process import FileProcess, is_of_relax
from tvm_ios.errors import ExecutionError
from tvm_ios.install.finder import CHOICE_VARIABLE

OF_RELAY = """
import sys, tvm_ios
model = tvm_ios.compile_schedule(*tvm_ios.from_onnx(sys.argv[1]), "llvm -opt-level=0", lanes=1)
model.export_library(sys.argv[2])
"""


@pytest.fixture(scope="module")
def of_relax(tmp_path_factory):
    """A small network of Relax in a file; the model lies beside it."""
    folder = tmp_path_factory.mktemp("relax")
    onnx.save(branches(), folder / "net.onnx")
    model = tvm_ios.compile_schedule(*tvm_ios.from_onnx(branches()), TARGET, lanes=1)
    model.export_library(folder / "relax.so")
    return folder / "relax.so"


@pytest.mark.slow(20)
def test_files_of_both_tvms_take_turns(of_relax, run_python, tmp_path, capfd):
    of_relay = tmp_path / "relay.so"
    around = {CHOICE_VARIABLE: "auto", "TVM_NUM_THREADS": "1"}
    made = run_python("-c", OF_RELAY, of_relax.with_name("net.onnx"), of_relay, **around)
    if made.returncode:
        pytest.skip(f"no TVM with Relay: {made.stderr.strip().splitlines()[-1]}")
    assert is_of_relax(of_relax)
    assert not is_of_relax(of_relay)
    assert main(["compare", str(of_relax), str(of_relay), "--rounds", "8", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["names"] == [str(of_relax), str(of_relay)]
    assert len(found["rounds"]) >= 8


@pytest.mark.slow(2)
def test_what_is_wrong_with_a_file_is_told_by_its_process(of_relax):
    with FileProcess(of_relax, lanes=1, any_processor_model=False) as process:
        assert process.time_ns(3) > 0
    with pytest.raises(ExecutionError, match=r"relax\.so: lanes is 1000"):
        FileProcess(of_relax, lanes=1000, any_processor_model=False)
