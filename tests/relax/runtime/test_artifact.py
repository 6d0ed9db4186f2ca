"""Exported files of kernels of TVM 0.27: one file, loaded here, in another process, and from C."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import tvm

import tvm_ios
from tests.relax.runtime import built
from tests.relax.runtime.c_program import EXAMPLE, started
from tvm_ios.cli.main import main
from tvm_ios.errors import ArtifactError
from tvm_ios.runtime.artifact.artifact import export_artifact
from tvm_ios.runtime.artifact.factory import ExecutableFactory
from tvm_ios.runtime.base.native_runtime import C_API_FOLDER
from tvm_ios.runtime.base.tvm_names import ffi_library

PROGRAM = """
import sys
import numpy as np
import tvm_ios
with tvm_ios.load(sys.argv[1]) as executor:
    executor.run(data=np.fromfile(sys.argv[2], "float32").reshape(32, 64))
    executor.get_output(0).numpy().tofile(sys.argv[3])
"""


@pytest.fixture(scope="module")
def exported(executable, tmp_path_factory):
    """The kernels, their plan for two lanes, and the weights, in one file."""
    path = tmp_path_factory.mktemp("artifact") / "model.so"
    params = {"weight": tvm.runtime.tensor(built.values()[1])}
    export_artifact(ExecutableFactory(executable, built.TARGET, params), built.plan(2), path)
    return path


def test_a_loaded_file_computes_the_same(exported):
    data, weight = built.values()
    with tvm_ios.load(exported) as executor:
        assert executor.input_names == ("data",)
        np.testing.assert_array_equal(executor.get_input("weight").numpy(), weight)
        executor.run(data=data)
        for number, wanted in enumerate(built.expected(data, weight)):
            np.testing.assert_array_equal(executor.get_output(number).numpy(), wanted)


@pytest.mark.slow
def test_another_process_computes_the_same(exported, run_python, tmp_path):
    data, weight = built.values()
    data.tofile(tmp_path / "data.bin")
    words = (exported, tmp_path / "data.bin", tmp_path / "out.bin")
    done = run_python("-c", PROGRAM, *map(str, words), TVM_IOS_TVM="path")
    assert done.returncode == 0, done.stderr
    got = np.fromfile(tmp_path / "out.bin", "float32").reshape(built.SHAPE)
    np.testing.assert_array_equal(got, built.expected(data, weight)[0])


@pytest.mark.slow
def test_the_other_tvm_refuses_the_file(exported, run_python):
    done = run_python("-c", PROGRAM, str(exported), "", "", TVM_IOS_TVM="wheel")
    assert "made with TVM 0.27" in done.stderr.splitlines()[-1]
    assert "TVM_IOS_TVM" in done.stderr.splitlines()[-1]


def test_damaged_parameters_are_refused(exported, tmp_path):
    content = bytearray(exported.read_bytes())
    place = content.find(built.values()[1].tobytes())
    assert place > 0
    assert place % 64 == 0
    content[place] ^= 1
    (tmp_path / "model.so").write_bytes(content)
    with pytest.raises(ArtifactError, match="does not match its digest"):
        tvm_ios.load(tmp_path / "model.so")


def test_the_command_runs_it_and_compares_it(exported, tmp_path, capsys):
    assert main(["run", str(exported), "--profile", "--lanes", "1"]) == 0
    printed = capsys.readouterr().out
    assert "scaled" in printed
    assert "TVM kernel" in printed
    other = tmp_path / "other.so"
    other.write_bytes(exported.read_bytes())
    assert main(["compare", str(exported), str(other)]) == 0
    assert "times as fast" in capsys.readouterr().out


@pytest.mark.slow
def test_a_c_program_computes_the_same_without_tvms_runtime(exported, program, tmp_path):
    data, weight = built.values()
    data.tofile(tmp_path / "data.bin")
    words = ("--input", tmp_path / "data.bin", "--output", tmp_path / "out.bin", "--repeat", 20)
    done = started(program, exported, *words)
    assert done.returncode == 0, done.stderr
    got = np.fromfile(tmp_path / "out.bin", "float32").reshape(built.SHAPE)
    np.testing.assert_array_equal(got, built.expected(data, weight)[0])
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "libtvm_runtime" not in listed


@pytest.mark.slow
def test_a_c_program_tells_the_error_of_a_kernel(executable, program, tmp_path):
    half = (built.ROWS // 2, built.COLUMNS)
    params = {"weight": tvm.runtime.tensor(built.values()[1])}
    factory = ExecutableFactory(executable, built.TARGET, params)
    export_artifact(factory, built.plan(2, half), tmp_path / "half.so")
    np.zeros(half, "float32").tofile(tmp_path / "half.bin")
    done = started(program, tmp_path / "half.so", "--input", tmp_path / "half.bin")
    assert done.returncode != 0
    assert "failed: ValueError: Invalid data.shape[0] on argument #0" in done.stderr
    assert "expected 32; the model stays usable" in done.stderr


@pytest.mark.slow
def test_without_the_library_of_errors_a_c_program_says_so(exported, tmp_path):
    path = tmp_path / "alone"
    model = C_API_FOLDER / "tvm_ios_model.c"
    words = ["cc", f"-I{C_API_FOLDER}", str(EXAMPLE), str(model), "-ldl", "-lpthread"]
    subprocess.run([*words, "-o", str(path)], check=True)
    done = started(path, exported)
    assert done.returncode != 0
    assert "there is no libtvm_ffi.so, which kernels of this TVM need" in done.stderr
    folder = str(Path(ffi_library()._name).parent)
    assert started(path, exported, LD_LIBRARY_PATH=folder).returncode == 0
