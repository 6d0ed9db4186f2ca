"""``tvm-ios doctor`` with TVM 0.27, beside a TVM with Relay and alone."""

from __future__ import annotations

import os
import venv
from pathlib import Path

import pytest
import tvm
import tvm_ffi

from tvm_ios.host.machine import version_facts

HERE = Path(tvm.__file__).parent


def test_versions_in_a_file_name_llvm_too():
    assert int(version_facts()["llvm"]) == tvm.target.codegen.llvm_version_major()


@pytest.mark.slow(10)
def test_both_tvms_are_told_with_what_they_give(run_python):
    done = run_python("-m", "tvm_ios", "doctor", TVM_IOS_TVM="path", TVM_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"tvm           {tvm.__version__} (yours) at {HERE}" in done.stdout
    assert "it gives      Relax: " in done.stdout
    assert '"kind":"llvm"' in done.stdout
    assert "other tvm     0.17" in done.stdout
    assert "TVM_IOS_TVM=wheel imports it" in done.stdout
    assert "that gives    Relay: " in done.stdout
    assert done.stdout.endswith("The CPU path is ready.\n")


@pytest.mark.slow(10)
def test_without_a_tvm_with_relay_it_is_as_ready(run_python, project_root, tmp_path):
    """Only what apache-tvm needs is installed: there is no import hook, and no wheel."""
    packages, bare = Path(tvm_ffi.__file__).parents[1], tmp_path / "bare"
    venv.create(bare)
    given = tmp_path / "packages"
    given.mkdir()
    for found in packages.iterdir():
        if not found.name.startswith(("bitblas", "tvm_ios", "_tvm_ios", "__editable__", "tvm-ios")):
            (given / found.name).symlink_to(found)
    path = os.pathsep.join((os.fspath(project_root), os.fspath(given)))
    environment = {"python": os.fspath(bare / "bin" / "python"), "PYTHONPATH": path}
    done = run_python("-m", "tvm_ios", "doctor", **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"tvm           {tvm.__version__} (yours)" in done.stdout
    assert "other tvm" not in done.stdout
    done = run_python("-c", "import tvm_ios; print(tvm_ios.load)", **environment)
    assert done.returncode == 0, done.stderr
