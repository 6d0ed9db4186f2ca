from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tvm_ios.cli.main import main

BASE_PYTHON = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"


@pytest.mark.slow
def test_this_environment_is_ready(run_python):
    done = run_python("-m", "tvm_ios", "doctor", TVM_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "dialects      relay" in done.stdout
    assert "it gives      Relay: AutoTVM, Ansor and their logs" in done.stdout
    assert "other tvm     0.27.0.post1 (yours) at" in done.stdout
    assert "TVM_IOS_TVM=path imports it" in done.stdout
    assert "(TVM_NUM_THREADS=1)" in done.stdout
    assert "GFLOP/s of float32" in done.stdout
    assert done.stdout.endswith("The CPU path is ready.\n")


@pytest.mark.slow
def test_json_holds_the_same_facts(capsys):
    assert main(["doctor", "--json"]) == 0
    report, threads = json.loads(capsys.readouterr().out), os.environ["TVM_NUM_THREADS"]
    assert report["problems"] == []
    assert str(report["tvm"]["threads"]) == threads
    assert report["lane_speeds"]["flops_per_ns"] > 0
    assert report["tvm_num_threads"] == threads
    assert report["latency_mode"] in (None, "fast", "slow")


@pytest.mark.slow
def test_no_tvm_is_told_with_the_command_that_mends_it(run_python, tmp_path):
    (tmp_path / "tvm.py").write_text(
        "raise ModuleNotFoundError('No module named tvm', name='tvm')\n"
    )
    done = run_python("-m", "tvm_ios", "doctor", TVM_IOS_TVM="path", PYTHONPATH=os.fspath(tmp_path))
    assert done.returncode == 1
    assert "MISSING: no TVM found; run `tvm-ios install-tvm`" in done.stdout


@pytest.mark.slow
def test_no_compiler_is_told_with_the_command_that_mends_it(run_python, tmp_path):
    done = run_python("-m", "tvm_ios", "doctor", PATH=str(tmp_path), CC="")
    assert done.returncode == 1
    assert "MISSING: no C compiler" in done.stdout
    assert "apt-get install gcc" in done.stdout


@pytest.mark.slow(1)
@pytest.mark.skipif(not BASE_PYTHON.exists(), reason=f"no interpreter at {BASE_PYTHON}")
def test_doctor_runs_where_nothing_at_all_is_installed(run_python, project_root):
    done = run_python(
        "-I",
        "-S",
        "-c",
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from tvm_ios.cli.main import main; sys.exit(main(['doctor']))",
        os.fspath(project_root),
        python=os.fspath(BASE_PYTHON),
    )
    assert done.returncode == 1, done.stderr
    assert "The CPU path is not ready." in done.stdout
